/* The parameterised binary family through the C ABI: Lerp and AddScaled forward and backward, broadcast
 * weights with their summed gradient, and streams that bring their own executor.
 */
#include <stdlib.h>
#include <string.h>

#include "check.h"

static void test_forward(void) {
  static const int64_t shape[] = {2, 2};
  float a_data[4] = {0.0F, 1.0F, -2.0F, 8.0F};
  float b_data[4] = {4.0F, 1.0F, 2.0F, -8.0F};
  float y_data[4];
  const float lerp[4] = {1.0F, 1.0F, -1.0F, 4.0F};
  const float add_scaled[4] = {1.0F, 1.25F, -1.5F, 6.0F};
  planck_tensor a = packed(a_data, PLANCK_F32, 2, shape, 4);
  planck_tensor b = packed(b_data, PLANCK_F32, 2, shape, 4);
  planck_tensor y = packed(y_data, PLANCK_F32, 2, shape, 4);
  planck_binary_param_descriptor d = {PLANCK_LERP, shape_of(2, shape), PLANCK_F32, 0.25, NULL, NULL, NULL};
  planck_binary_param_args args = {&a, &b, NULL, &y};
  size_t bytes = 1;

  CHECK_OK(planck_binary_param_workspace_size(&d, NULL, &bytes));
  CHECK(bytes == 0);
  CHECK_OK(planck_binary_param_can_implement(&d, &args, NULL));
  CHECK_OK(planck_binary_param_run(&d, &args, NULL, 0, NULL));
  CHECK_ARRAY(lerp, y_data);
  d.kind = PLANCK_ADD_SCALED;
  CHECK_OK(planck_binary_param_run(&d, &args, NULL, 0, NULL));
  CHECK_ARRAY(add_scaled, y_data);
}

/* a is a row, b a column, the weight a tensor: each with a shape of its own. */
static void test_forward_broadcast(void) {
  static const int64_t shape[] = {2, 3};
  static const int64_t row[] = {3};
  static const int64_t column[] = {2, 1};
  double a_data[3] = {0.0, 2.0, 4.0};
  double b_data[2] = {8.0, 16.0};
  double w_data[6] = {0.0, 0.25, 0.5, 1.0, 0.5, 0.25};
  double y_data[6];
  const double expected[6] = {0.0, 3.5, 6.0, 16.0, 9.0, 7.0};
  planck_shape row_shape = shape_of(1, row);
  planck_shape column_shape = shape_of(2, column);
  planck_shape full_shape = shape_of(2, shape);
  planck_tensor a = packed(a_data, PLANCK_F64, 1, row, 3);
  planck_tensor b = packed(b_data, PLANCK_F64, 2, column, 2);
  planck_tensor w = packed(w_data, PLANCK_F64, 2, shape, 6);
  planck_tensor y = packed(y_data, PLANCK_F64, 2, shape, 6);
  planck_binary_param_descriptor d = {PLANCK_LERP, full_shape, PLANCK_F64, 0.0, &full_shape, &row_shape, &column_shape};
  planck_binary_param_args args = {&a, &b, &w, &y};
  CHECK_OK(planck_binary_param_run(&d, &args, NULL, 0, NULL));
  CHECK_ARRAY(expected, y_data);
}

static void test_backward(void) {
  static const int64_t shape[] = {4};
  float dy_data[4] = {1.0F, -2.0F, 4.0F, 0.5F};
  float da_data[4];
  float db_data[4];
  const float lerp_da[4] = {0.75F, -1.5F, 3.0F, 0.375F};
  const float db_expected[4] = {0.25F, -0.5F, 1.0F, 0.125F};
  const float add_scaled_da[4] = {1.0F, -2.0F, 4.0F, 0.5F};
  planck_tensor dy = packed(dy_data, PLANCK_F32, 1, shape, 4);
  planck_tensor da = packed(da_data, PLANCK_F32, 1, shape, 4);
  planck_tensor db = packed(db_data, PLANCK_F32, 1, shape, 4);
  planck_binary_param_backward_descriptor d = {PLANCK_LERP, shape_of(1, shape), PLANCK_F32, 0.25, NULL, NULL, NULL};
  planck_binary_param_backward_args args = {&dy, NULL, NULL, NULL, &da, &db, NULL};
  size_t bytes = 1;

  CHECK_OK(planck_binary_param_backward_workspace_size(&d, NULL, &bytes));
  CHECK(bytes == 0);
  CHECK_OK(planck_binary_param_backward_can_implement(&d, &args, NULL));
  CHECK_OK(planck_binary_param_backward_run(&d, &args, NULL, 0, NULL));
  CHECK_ARRAY(lerp_da, da_data);
  CHECK_ARRAY(db_expected, db_data);

  /* One gradient only: the other stays as it was. */
  memset(da_data, 0, sizeof da_data);
  memset(db_data, 0, sizeof db_data);
  args.db = NULL;
  d.kind = PLANCK_ADD_SCALED;
  CHECK_OK(planck_binary_param_backward_run(&d, &args, NULL, 0, NULL));
  CHECK_ARRAY(add_scaled_da, da_data);
  CHECK(db_data[0] == 0.0F && db_data[3] == 0.0F);
}

enum { LENGTH = 8192, REPEATS = LENGTH / 4 };

/* A row of four values, over and over. */
static void fill_row(float* row, const float pattern[4]) {
  int i;
  for (i = 0; i < LENGTH; ++i) row[i] = pattern[i % 4];
}

/* A weight per row: dw sums along rows long enough that _workspace_size asks for some. */
static void test_summed_weight_gradient(void) {
  static const int64_t shape[] = {2, LENGTH};
  static const int64_t column[] = {2, 1};
  static const float dy_rows[2][4] = {{1.0F, 2.0F, 3.0F, 4.0F}, {1.0F, 1.0F, 1.0F, -1.0F}};
  static const float a_rows[2][4] = {{0.0F, 0.0F, 0.0F, 0.0F}, {1.0F, 1.0F, 1.0F, 1.0F}};
  static const float b_rows[2][4] = {{1.0F, 1.0F, 0.5F, 0.25F}, {2.0F, 3.0F, 4.0F, 5.0F}};
  static const float da_rows[2][4] = {{0.75F, 1.5F, 2.25F, 3.0F}, {0.5F, 0.5F, 0.5F, -0.5F}};
  static float dy_data[2 * LENGTH], a_data[2 * LENGTH], b_data[2 * LENGTH], da_data[2 * LENGTH], lerp_da[2 * LENGTH];
  float w_data[2] = {0.25F, 0.5F};
  float dw_data[2] = {9.0F, 9.0F};
  const float lerp_dw[2] = {5.5F * REPEATS, 2.0F * REPEATS};
  const float add_scaled_dw[2] = {5.5F * REPEATS, 4.0F * REPEATS};
  planck_shape weight_shape = shape_of(2, column);
  planck_tensor dy = packed(dy_data, PLANCK_F32, 2, shape, 2 * LENGTH);
  planck_tensor a = packed(a_data, PLANCK_F32, 2, shape, 2 * LENGTH);
  planck_tensor b = packed(b_data, PLANCK_F32, 2, shape, 2 * LENGTH);
  planck_tensor w = packed(w_data, PLANCK_F32, 2, column, 2);
  planck_tensor da = packed(da_data, PLANCK_F32, 2, shape, 2 * LENGTH);
  planck_tensor dw = packed(dw_data, PLANCK_F32, 2, column, 2);
  planck_binary_param_backward_descriptor d = {PLANCK_LERP, shape_of(2, shape), PLANCK_F32, 0.0, &weight_shape, NULL,
                                               NULL};
  planck_binary_param_backward_args args = {&dy, &a, &b, &w, &da, NULL, &dw};
  size_t bytes = 0;
  char* workspace;
  int row;

  for (row = 0; row < 2; ++row) {
    fill_row(dy_data + row * LENGTH, dy_rows[row]);
    fill_row(a_data + row * LENGTH, a_rows[row]);
    fill_row(b_data + row * LENGTH, b_rows[row]);
    fill_row(lerp_da + row * LENGTH, da_rows[row]);
  }
  CHECK_OK(planck_binary_param_backward_workspace_size(&d, NULL, &bytes));
  CHECK(bytes > 0);
  workspace = malloc(bytes + 1);
  CHECK(workspace != NULL);
  if (workspace == NULL) return;

  CHECK_STATUS(PLANCK_WORKSPACE_TOO_SMALL, "BinaryParamBackwardPlan,workspace",
               planck_binary_param_backward_run(&d, &args, workspace, bytes - 1, NULL));
  CHECK_STATUS(PLANCK_WORKSPACE_TOO_SMALL, "bytes but has 0",
               planck_binary_param_backward_run(&d, &args, NULL, 0, NULL));
  CHECK(dw_data[0] == 9.0F && dw_data[1] == 9.0F);
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "workspace,null",
               planck_binary_param_backward_run(&d, &args, NULL, bytes, NULL));

  CHECK_OK(planck_binary_param_backward_run(&d, &args, workspace, bytes, NULL));
  CHECK_ARRAY(lerp_dw, dw_data);
  CHECK_ARRAY(lerp_da, da_data);
  /* Any alignment will do. */
  dw_data[0] = dw_data[1] = 9.0F;
  CHECK_OK(planck_binary_param_backward_run(&d, &args, workspace + 1, bytes, NULL));
  CHECK_ARRAY(lerp_dw, dw_data);

  d.kind = PLANCK_ADD_SCALED;
  args.a = NULL; /* not needed for its dw */
  CHECK_OK(planck_binary_param_backward_run(&d, &args, workspace, bytes, NULL));
  CHECK_ARRAY(add_scaled_dw, dw_data);
  free(workspace);
}

void test_binary_param(void) {
  test_forward();
  test_forward_broadcast();
  test_backward();
  test_summed_weight_gradient();
}

/* An executor that does everything itself, last task first, and remembers what it was asked. */
struct Journal {
  int64_t calls;
  int64_t tasks;
  int32_t max_threads;
};

static void backwards_for_each(void* executor, int64_t count, int32_t max_threads,
                               void (*task)(void* context, int64_t index), void* context) {
  struct Journal* journal = executor;
  int64_t i;
  ++journal->calls;
  journal->tasks += count;
  if (max_threads > journal->max_threads) journal->max_threads = max_threads;
  for (i = count - 1; i >= 0; --i) task(context, i);
}

static void test_executor(void) {
  enum { kCount = 1 << 18 };
  static const int64_t shape[] = {kCount};
  static float x[kCount];
  static float y[kCount];
  planck_tensor in = packed(x, PLANCK_F32, 1, shape, kCount);
  planck_tensor out = packed(y, PLANCK_F32, 1, shape, kCount);
  planck_fake_quantize_descriptor d = {
      .shape = shape_of(1, shape), .q_min = -128, .q_max = 127, .input_element = PLANCK_F32};
  planck_fake_quantize_args a = {.input = &in, .scale = 2.0, .output = &out};
  struct Journal journal = {0, 0, 0};
  planck_stream stream = {PLANCK_CPU, 3, backwards_for_each, NULL, 8, NULL};
  int wrong = 0;
  int i;

  stream.executor = &journal;
  for (i = 0; i < kCount; ++i) {
    x[i] = (float)(i % 101 - 50);
    y[i] = 99.0F;
  }
  CHECK_OK(planck_fake_quantize_run(&d, &a, NULL, 0, &stream));
  CHECK(journal.calls > 0);
  CHECK(journal.tasks > 1);
  CHECK(journal.max_threads == 3); /* the limit, which is below the executor's 8 */
  for (i = 0; i < kCount; ++i) {
    const int k = i % 101 - 50;
    const int steps = k % 2 == 0 ? k / 2 : (k - 1) / 2 % 2 == 0 ? (k - 1) / 2 : (k + 1) / 2; /* k/2 to even */
    wrong += y[i] != (float)(2 * steps);
  }
  CHECK(wrong == 0);

  /* A limit of one thread leaves the executor alone; so does an executor that says it has one. */
  journal.calls = 0;
  stream.max_threads = 1;
  CHECK_OK(planck_fake_quantize_run(&d, &a, NULL, 0, &stream));
  stream.max_threads = 0;
  stream.concurrency = 0;
  CHECK_OK(planck_fake_quantize_run(&d, &a, NULL, 0, &stream));
  CHECK(journal.calls == 0);

  /* No callback: the default executor. */
  stream.for_each = NULL;
  stream.executor = NULL;
  memset(y, 0, sizeof y);
  CHECK_OK(planck_fake_quantize_run(&d, &a, NULL, 0, &stream));
  CHECK(y[0] == -50.0F && y[kCount - 1] == 2.0F * (float)((kCount - 1) % 101 / 2 - 25));
}

void test_streams(void) { test_executor(); }
