/* Scans and linear recurrences through the C ABI: every kind, both directions, forward and backward, the optional
 * tensors, long axes with their workspace, and what is refused.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static const int64_t kShape[] = {2, 4};

/* Two rows of four, scanned along axis 1; each test changes what it is about. */
struct Rows {
  float x[8];
  float y[8];
  planck_tensor in;
  planck_tensor out;
  planck_scan_descriptor d;
  planck_scan_args a;
};

static void make_rows(struct Rows* r, int32_t kind) {
  static const float x[8] = {1.0F, 3.0F, 3.0F, 2.0F, 4.0F, -1.0F, 0.5F, 4.0F};
  int i;
  memcpy(r->x, x, sizeof x);
  for (i = 0; i < 8; ++i) r->y[i] = 77.0F;
  r->in = packed(r->x, PLANCK_F32, 2, kShape, 8);
  r->out = packed(r->y, PLANCK_F32, 2, kShape, 8);
  r->d =
      (planck_scan_descriptor){.kind = kind, .input_shape = shape_of(2, kShape), .scan_axis = 1, .element = PLANCK_F32};
  r->a = (planck_scan_args){.x = &r->in, .y = &r->out};
}

static void test_sums_and_products(void) {
  const float sum[8] = {1.0F, 4.0F, 7.0F, 9.0F, 4.0F, 3.0F, 3.5F, 7.5F};
  const float reverse_sum[8] = {9.0F, 8.0F, 5.0F, 2.0F, 7.5F, 3.5F, 4.5F, 4.0F};
  const float columns[8] = {1.0F, 3.0F, 3.0F, 2.0F, 5.0F, 2.0F, 3.5F, 6.0F};
  const float product_before[8] = {1.0F, 1.0F, 3.0F, 9.0F, 1.0F, 4.0F, -4.0F, -2.0F};
  struct Rows r;
  size_t bytes = 1;

  make_rows(&r, PLANCK_CUMSUM);
  CHECK_OK(planck_scan_workspace_size(&r.d, NULL, &bytes));
  CHECK(bytes == 0);
  CHECK_OK(planck_scan_can_implement(&r.d, &r.a, NULL));
  CHECK(r.y[0] == 77.0F);
  CHECK_OK(planck_scan_run(&r.d, &r.a, NULL, 0, NULL));
  CHECK_ARRAY(sum, r.y);
  r.d.scan_axis = -2;
  CHECK_OK(planck_scan_run(&r.d, &r.a, NULL, 0, NULL));
  CHECK_ARRAY(columns, r.y);
  r.d.scan_axis = -1;
  r.d.reverse = 1;
  CHECK_OK(planck_scan_run(&r.d, &r.a, NULL, 0, NULL));
  CHECK_ARRAY(reverse_sum, r.y);

  make_rows(&r, PLANCK_CUMPROD);
  r.d.exclusive = 1;
  CHECK_OK(planck_scan_run(&r.d, &r.a, NULL, 0, NULL));
  CHECK_ARRAY(product_before, r.y);
  r.a.y = &r.in; /* in place */
  CHECK_OK(planck_scan_run(&r.d, &r.a, NULL, 0, NULL));
  CHECK_ARRAY(product_before, r.x);
}

static void test_log_sum_exp(void) {
  struct Rows r;
  int i;
  make_rows(&r, PLANCK_LOG_CUMSUM_EXP);
  for (i = 0; i < 8; ++i) r.x[i] = 0.0F;
  r.x[4] = -INFINITY;
  CHECK_OK(planck_scan_run(&r.d, &r.a, NULL, 0, NULL));
  CHECK(r.y[0] == 0.0F && fabs(r.y[3] - log(4.0)) < 1e-6);
  CHECK(r.y[4] == -INFINITY && r.y[5] == 0.0F);
}

static void test_integers(void) {
  static const int64_t shape[] = {3};
  int32_t narrow[3] = {INT32_MAX, 1, 1};
  int64_t wide[3] = {INT64_MAX, 2, 3};
  const int32_t narrow_sum[3] = {INT32_MAX, INT32_MIN, INT32_MIN + 1};
  const int64_t wide_product[3] = {INT64_MAX, -2, -6};
  int32_t narrow_y[3];
  int64_t wide_y[3];
  planck_tensor x = packed(narrow, PLANCK_S32, 1, shape, 3);
  planck_tensor y = packed(narrow_y, PLANCK_S32, 1, shape, 3);
  planck_scan_descriptor d = {.kind = PLANCK_CUMSUM, .input_shape = shape_of(1, shape), .element = PLANCK_S32};
  planck_scan_args a = {.x = &x, .y = &y};
  CHECK_OK(planck_scan_run(&d, &a, NULL, 0, NULL));
  CHECK_ARRAY(narrow_sum, narrow_y);
  x = packed(wide, PLANCK_S64, 1, shape, 3);
  y = packed(wide_y, PLANCK_S64, 1, shape, 3);
  d.kind = PLANCK_CUMPROD;
  d.element = PLANCK_S64;
  CHECK_OK(planck_scan_run(&d, &a, NULL, 0, NULL));
  CHECK_ARRAY(wide_product, wide_y);
  d.kind = PLANCK_LOG_CUMSUM_EXP;
  CHECK_STATUS(PLANCK_UNSUPPORTED, "ScanPlan,element,s64", planck_scan_run(&d, &a, NULL, 0, NULL));
}

/* The indices tensor alone says whether indices are wanted, and of which kind. */
static void test_extrema(void) {
  const float largest[8] = {1.0F, 3.0F, 3.0F, 3.0F, 4.0F, 4.0F, 4.0F, 4.0F};
  const float smallest[8] = {1.0F, 1.0F, 1.0F, 1.0F, 4.0F, -1.0F, -1.0F, -1.0F};
  const int64_t first[8] = {0, 1, 1, 1, 0, 0, 0, 0};
  const int32_t last[8] = {0, 1, 2, 2, 0, 0, 0, 3};
  int64_t wide[8];
  int32_t narrow[8];
  planck_tensor wide_out = packed(wide, PLANCK_S64, 2, kShape, 8);
  planck_tensor narrow_out = packed(narrow, PLANCK_S32, 2, kShape, 8);
  struct Rows r;

  make_rows(&r, PLANCK_CUMMIN);
  CHECK_OK(planck_scan_run(&r.d, &r.a, NULL, 0, NULL));
  CHECK_ARRAY(smallest, r.y);

  make_rows(&r, PLANCK_CUMMAX);
  r.a.indices = &wide_out;
  CHECK_OK(planck_scan_can_implement(&r.d, &r.a, NULL));
  CHECK_OK(planck_scan_run(&r.d, &r.a, NULL, 0, NULL));
  CHECK_ARRAY(largest, r.y);
  CHECK_ARRAY(first, wide);
  r.a.indices = &narrow_out;
  r.d.ties = PLANCK_TIES_LAST;
  CHECK_OK(planck_scan_run(&r.d, &r.a, NULL, 0, NULL));
  CHECK_ARRAY(largest, r.y);
  CHECK_ARRAY(last, narrow);
}

/* Checks run and can_implement alike, and that nothing was written. */
#define CHECK_SPOILT(status, words)                                           \
  do {                                                                        \
    CHECK_STATUS(status, words, planck_scan_run(&r.d, &r.a, NULL, 0, NULL));  \
    CHECK_STATUS(status, words, planck_scan_can_implement(&r.d, &r.a, NULL)); \
    CHECK(r.y[0] == 77.0F && r.y[7] == 77.0F);                                \
    make_rows(&r, PLANCK_CUMMAX);                                             \
  } while (0)

static void test_scan_errors(void) {
  static const int64_t other[] = {4, 2};
  static const int64_t huge[] = {2, ((int64_t)1 << 31) + 1};
  int64_t at[8];
  planck_tensor indices = packed(at, PLANCK_S64, 2, kShape, 8);
  size_t bytes = 5;
  struct Rows r;
  make_rows(&r, PLANCK_CUMMAX);

  r.d.scan_axis = 2;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "ScanPlan,scan_axis = 2,[2");
  r.d.scan_axis = -3;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "ScanPlan,scan_axis = -3,[2");
  r.d.ties = 2;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "ScanPlan,ties = 2");
  r.d.ties = -1;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "ScanPlan,ties = -1");
  r.d.exclusive = 1;
  CHECK_SPOILT(PLANCK_UNSUPPORTED, "ScanPlan,Cummax,exclusive");
  r.d.kind = 5;
  CHECK_SPOILT(PLANCK_UNSUPPORTED, "ScanPlan,kind = 5");
  r.d.kind = -1;
  CHECK_SPOILT(PLANCK_UNSUPPORTED, "ScanPlan,kind = -1");
  r.d.kind = 1000; /* LinearRecurrence has a function of its own */
  CHECK_SPOILT(PLANCK_UNSUPPORTED, "ScanPlan,kind = 1000");
  r.d.element = PLANCK_U8;
  CHECK_SPOILT(PLANCK_UNSUPPORTED, "ScanPlan,element,u8");
  r.d.element = PLANCK_F64;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "ScanPlan,x,f32,f64");
  r.d.input_shape = shape_of(2, other);
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "ScanPlan,x,[2,[4");
  r.d.input_shape = shape_of(0, NULL);
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "ScanPlan,scan_axis = 1,[]");
  r.d.input_shape.rank = 9;
  CHECK_SPOILT(PLANCK_UNSUPPORTED, "ScanPlan,input_shape,rank 9");
  r.a.y = NULL;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "ScanPlan,to y is null");
  r.in.data = NULL;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "ScanPlan,x,8 elements,null");

  r.a.indices = &indices;
  r.d.kind = PLANCK_CUMSUM;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "ScanPlan,index_element,only Cummax and Cummin");
  r.a.indices = &indices;
  indices.element = PLANCK_F32;
  CHECK_SPOILT(PLANCK_UNSUPPORTED, "ScanPlan,index_element,f32");
  indices.element = PLANCK_S64;
  indices.data = NULL;
  r.a.indices = &indices;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "ScanPlan,indices,null");
  indices.data = r.x;
  indices.element = PLANCK_S32;
  r.a.indices = &indices;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "ScanPlan,indices,share memory with x");
  indices.data = at;
  r.a.indices = &indices;
  r.d.input_shape = shape_of(2, huge);
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "ScanPlan,s32,2147483649");

  r.d.scan_axis = 7;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "scan_axis = 7", planck_scan_workspace_size(&r.d, NULL, &bytes));
  CHECK(bytes == 5);
}

/* A few long rows are cut into blocks, which need memory for their totals. */
static void test_long_rows(void) {
  enum { ROWS = 3, LENGTH = 1 << 18, COUNT = ROWS * LENGTH };
  static const int64_t shape[] = {ROWS, LENGTH};
  static float x_data[COUNT], y_data[COUNT];
  planck_tensor x = packed(x_data, PLANCK_F32, 2, shape, COUNT);
  planck_tensor y = packed(y_data, PLANCK_F32, 2, shape, COUNT);
  planck_scan_descriptor d = {
      .kind = PLANCK_CUMSUM, .input_shape = shape_of(2, shape), .scan_axis = 1, .element = PLANCK_F32};
  planck_scan_args a = {.x = &x, .y = &y};
  size_t bytes = 0;
  char* workspace;
  int wrong = 0;
  int i;
  for (i = 0; i < COUNT; ++i) x_data[i] = 1.0F;
  CHECK_OK(planck_scan_workspace_size(&d, NULL, &bytes));
  CHECK(bytes > 0);
  workspace = malloc(bytes + 1);
  CHECK(workspace != NULL);
  if (workspace == NULL) return;
  CHECK_STATUS(PLANCK_WORKSPACE_TOO_SMALL, "ScanPlan,workspace", planck_scan_run(&d, &a, workspace, bytes - 1, NULL));
  CHECK(y_data[0] == 0.0F && y_data[COUNT - 1] == 0.0F);
  CHECK_OK(planck_scan_run(&d, &a, workspace, bytes, NULL));
  for (i = 0; i < COUNT; ++i) wrong += y_data[i] != (float)(i % LENGTH + 1);
  CHECK(wrong == 0);
  /* Any alignment will do. */
  memset(y_data, 0, sizeof y_data);
  CHECK_OK(planck_scan_run(&d, &a, workspace + 1, bytes, NULL));
  CHECK(y_data[LENGTH - 1] == (float)LENGTH && y_data[COUNT - 1] == (float)LENGTH);
  free(workspace);
}

/* The query does not see the indices, so it counts them in. */
static void test_long_rows_with_indices(void) {
  enum { ROWS = 2, LENGTH = 1 << 18, COUNT = ROWS * LENGTH };
  static const int64_t shape[] = {ROWS, LENGTH};
  static float x_data[COUNT], y_data[COUNT];
  static int64_t at[COUNT];
  planck_tensor x = packed(x_data, PLANCK_F32, 2, shape, COUNT);
  planck_tensor y = packed(y_data, PLANCK_F32, 2, shape, COUNT);
  planck_tensor indices = packed(at, PLANCK_S64, 2, shape, COUNT);
  planck_scan_descriptor d = {
      .kind = PLANCK_CUMMAX, .input_shape = shape_of(2, shape), .scan_axis = 1, .element = PLANCK_F32};
  planck_scan_args a = {.x = &x, .y = &y, .indices = &indices};
  size_t bytes = 0;
  char* workspace;
  x_data[5] = 1.0F;
  CHECK_OK(planck_scan_workspace_size(&d, NULL, &bytes));
  CHECK(bytes > 0);
  workspace = malloc(bytes);
  CHECK(workspace != NULL);
  if (workspace == NULL) return;
  CHECK_OK(planck_scan_run(&d, &a, workspace, bytes, NULL));
  CHECK(at[4] == 0 && at[5] == 5 && at[LENGTH - 1] == 5 && at[COUNT - 1] == 0 && y_data[LENGTH - 1] == 1.0F);
  a.indices = NULL;
  CHECK_OK(planck_scan_run(&d, &a, workspace, bytes, NULL));
  free(workspace);
}

/* Two rows in two pieces: the results are those of the whole rows. */
static void test_pieces(void) {
  enum { ROWS = 2, LENGTH = 5000, PIECE = 4096, COUNT = ROWS * LENGTH, WORDS = PLANCK_SCAN_CARRY_WORDS };
  static const int64_t shape[] = {ROWS, LENGTH};
  static const int64_t first_shape[] = {ROWS, PIECE};
  static const int64_t last_shape[] = {ROWS, LENGTH - PIECE};
  static const int64_t carry_shape[] = {ROWS, WORDS};
  static const int64_t strides[] = {LENGTH, 1};
  static float x_data[COUNT], whole[COUNT], y_data[COUNT];
  static int64_t whole_at[COUNT], at[COUNT];
  static int64_t words[ROWS * WORDS], sent[ROWS * WORDS];
  planck_tensor x = packed(x_data, PLANCK_F32, 2, shape, COUNT);
  planck_tensor y = packed(whole, PLANCK_F32, 2, shape, COUNT);
  planck_tensor indices = packed(whole_at, PLANCK_S64, 2, shape, COUNT);
  planck_tensor carry = packed(words, PLANCK_S64, 2, carry_shape, ROWS * WORDS);
  planck_tensor arrived = packed(sent, PLANCK_S64, 2, carry_shape, ROWS * WORDS);
  planck_scan_descriptor d = {
      .kind = PLANCK_CUMMAX, .input_shape = shape_of(2, shape), .scan_axis = 1, .element = PLANCK_F32};
  planck_scan_args a = {.x = &x, .y = &y, .indices = &indices};
  planck_linear_recurrence_descriptor r = {.input_shape = shape_of(2, shape), .scan_axis = 1, .element = PLANCK_F32};
  planck_linear_recurrence_args h = {.a = &x, .b = &x, .h = &y};
  char* workspace = malloc(1 << 16);
  int i;
  CHECK(workspace != NULL);
  if (workspace == NULL) return;
  for (i = 0; i < COUNT; ++i) x_data[i] = 0.25F + (float)(i * 7919 % 5003) / 10006.0F;
  CHECK_OK(planck_scan_run(&d, &a, workspace, 1 << 16, NULL));

  x.strides = y.strides = indices.strides = strides;
  y.data = y_data;
  indices.data = at;
  d.input_shape = shape_of(2, first_shape);
  x.shape = y.shape = indices.shape = first_shape;
  a.carry_out = &carry;
  CHECK_OK(planck_scan_run(&d, &a, workspace, 1 << 16, NULL));
  CHECK(words[1] == PIECE && words[WORDS + 1] == PIECE);
  memcpy(sent, words, sizeof sent);
  d.input_shape = shape_of(2, last_shape);
  x.shape = y.shape = indices.shape = last_shape;
  x.offset = y.offset = indices.offset = PIECE;
  a.carry_in = &arrived;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "ScanPlan,carry_out,4096,904",
               planck_scan_run(&d, &a, workspace, 1 << 16, NULL));
  a.carry_out = NULL;
  sent[WORDS] = 0;
  CHECK_OK(planck_scan_can_implement(&d, &a, NULL));
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "ScanPlan,word 0 of row 1,carry_in",
               planck_scan_run(&d, &a, workspace, 1 << 16, NULL));
  CHECK(y_data[PIECE] == 0.0F && at[PIECE] == 0);
  sent[WORDS] = words[WORDS];
  d.reverse = 1;
  CHECK_STATUS(PLANCK_UNSUPPORTED, "ScanPlan,carry_in,reverse", planck_scan_can_implement(&d, &a, NULL));
  d.reverse = 0;
  CHECK_OK(planck_scan_run(&d, &a, workspace, 1 << 16, NULL));
  CHECK_ARRAY(whole, y_data);
  CHECK_ARRAY(whole_at, at);

  /* Recurrences. */
  y.data = whole;
  x.shape = y.shape = shape;
  x.offset = y.offset = 0;
  CHECK_OK(planck_linear_recurrence_run(&r, &h, workspace, 1 << 16, NULL));
  y.data = y_data;
  r.input_shape = shape_of(2, first_shape);
  x.shape = y.shape = first_shape;
  h.carry_out = &carry;
  CHECK_OK(planck_linear_recurrence_run(&r, &h, workspace, 1 << 16, NULL));
  r.input_shape = shape_of(2, last_shape);
  x.shape = y.shape = last_shape;
  x.offset = y.offset = PIECE;
  h.carry_out = NULL;
  h.carry_in = &carry;
  CHECK_OK(planck_linear_recurrence_run(&r, &h, workspace, 1 << 16, NULL));
  CHECK_ARRAY(whole, y_data);
  h.carry_in = &arrived;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "LinearRecurrencePlan,word 0 of row 0,carry_in",
               planck_linear_recurrence_run(&r, &h, workspace, 1 << 16, NULL));
  h.initial = &carry;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "LinearRecurrencePlan,carry_in,initial",
               planck_linear_recurrence_run(&r, &h, workspace, 1 << 16, NULL));
  free(workspace);
}

static void test_linear_recurrence(void) {
  static const int64_t shape[] = {3, 2};
  static const int64_t one_row[] = {1, 2};
  static const int64_t one_column[] = {3, 1};
  double a_data[6] = {2.0, -1.0, 3.0, 0.5, 4.0, 8.0};
  double b_data[6] = {1.0, 1.0, 1.0, 2.0, 1.0, 3.0};
  double start_data[2] = {10.0, -2.0};
  double h_data[6];
  const double from_zero[6] = {1.0, 1.0, 4.0, 2.5, 17.0, 23.0};
  const double from_start[6] = {21.0, 3.0, 64.0, 3.5, 257.0, 31.0};
  const double from_the_end[6] = {9.0, -2.5, 4.0, 3.5, 1.0, 3.0};
  planck_tensor a = packed(a_data, PLANCK_F64, 2, shape, 6);
  planck_tensor b = packed(b_data, PLANCK_F64, 2, shape, 6);
  planck_tensor start = packed(start_data, PLANCK_F64, 2, one_row, 2);
  planck_tensor h = packed(h_data, PLANCK_F64, 2, shape, 6);
  planck_linear_recurrence_descriptor d = {.input_shape = shape_of(2, shape), .scan_axis = 0, .element = PLANCK_F64};
  planck_linear_recurrence_args args = {.a = &a, .b = &b, .h = &h};
  size_t bytes = 1;

  CHECK_OK(planck_linear_recurrence_workspace_size(&d, NULL, &bytes));
  CHECK(bytes == 0);
  CHECK_OK(planck_linear_recurrence_can_implement(&d, &args, NULL));
  CHECK_OK(planck_linear_recurrence_run(&d, &args, NULL, 0, NULL));
  CHECK_ARRAY(from_zero, h_data);
  args.initial = &start;
  CHECK_OK(planck_linear_recurrence_run(&d, &args, NULL, 0, NULL));
  CHECK_ARRAY(from_start, h_data);
  args.initial = NULL;
  d.scan_axis = -2;
  d.reverse = 1;
  CHECK_OK(planck_linear_recurrence_run(&d, &args, NULL, 0, NULL));
  CHECK_ARRAY(from_the_end, h_data);

  memset(h_data, 0, sizeof h_data);
  d.scan_axis = 2;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "LinearRecurrencePlan,scan_axis = 2,[3",
               planck_linear_recurrence_run(&d, &args, NULL, 0, NULL));
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "LinearRecurrencePlan,scan_axis = 2,[3",
               planck_linear_recurrence_workspace_size(&d, NULL, &bytes));
  d.scan_axis = 0;
  d.element = PLANCK_S32;
  CHECK_STATUS(PLANCK_UNSUPPORTED, "LinearRecurrencePlan,element,s32",
               planck_linear_recurrence_can_implement(&d, &args, NULL));
  d.element = PLANCK_F64;
  start.shape = one_column;
  args.initial = &start;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "LinearRecurrencePlan,initial,[3",
               planck_linear_recurrence_run(&d, &args, NULL, 0, NULL));
  args.initial = NULL;
  args.b = NULL;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "LinearRecurrencePlan,to b is null",
               planck_linear_recurrence_run(&d, &args, NULL, 0, NULL));
  CHECK(h_data[0] == 0.0 && h_data[5] == 0.0);
}

/* Each row's gradient is 1, 10, 100, 1000, so that a result shows where its parts come from. */
struct Gradients {
  struct Rows forward;
  float dy[8];
  float dx[8];
  planck_tensor d_out;
  planck_tensor d_in;
  planck_scan_backward_descriptor d;
  planck_scan_backward_args a;
};

static void make_gradients(struct Gradients* g, int32_t kind) {
  static const float dy[8] = {1.0F, 10.0F, 100.0F, 1000.0F, 1.0F, 10.0F, 100.0F, 1000.0F};
  int i;
  make_rows(&g->forward, kind);
  memcpy(g->dy, dy, sizeof dy);
  for (i = 0; i < 8; ++i) g->dx[i] = 77.0F;
  g->d_out = packed(g->dy, PLANCK_F32, 2, kShape, 8);
  g->d_in = packed(g->dx, PLANCK_F32, 2, kShape, 8);
  g->d = g->forward.d;
  g->a = (planck_scan_backward_args){.dy = &g->d_out, .dx = &g->d_in};
}

static void test_backward_sums_and_products(void) {
  const float sum[8] = {1111.0F, 1110.0F, 1100.0F, 1000.0F, 1111.0F, 1110.0F, 1100.0F, 1000.0F};
  const float reverse_before[8] = {0.0F, 1.0F, 11.0F, 111.0F, 0.0F, 1.0F, 11.0F, 111.0F};
  const float product[8] = {18931.0F, 6310.0F, 6300.0F, 9000.0F, -2059.0F, 8240.0F, -16400.0F, -2000.0F};
  struct Gradients g;
  size_t bytes = 1;

  make_gradients(&g, PLANCK_CUMSUM);
  CHECK_OK(planck_scan_backward_workspace_size(&g.d, NULL, &bytes));
  CHECK(bytes == 0);
  CHECK_OK(planck_scan_backward_can_implement(&g.d, &g.a, NULL));
  CHECK(g.dx[0] == 77.0F);
  CHECK_OK(planck_scan_backward_run(&g.d, &g.a, NULL, 0, NULL));
  CHECK_ARRAY(sum, g.dx);
  g.d.reverse = g.d.exclusive = 1;
  CHECK_OK(planck_scan_backward_run(&g.d, &g.a, NULL, 0, NULL));
  CHECK_ARRAY(reverse_before, g.dx);

  make_gradients(&g, PLANCK_CUMPROD);
  g.a.x = &g.forward.in;
  CHECK_OK(planck_scan_backward_run(&g.d, &g.a, NULL, 0, NULL));
  CHECK_ARRAY(product, g.dx);
  g.a.y = &g.forward.out; /* given, not needed, not read */
  g.a.dx = &g.forward.in; /* in place */
  CHECK_OK(planck_scan_backward_run(&g.d, &g.a, NULL, 0, NULL));
  CHECK_ARRAY(product, g.forward.x);
}

/* From x or from the indices, whose element the tensor says. */
static void test_backward_extrema(void) {
  const float first[8] = {1.0F, 1110.0F, 0.0F, 0.0F, 1111.0F, 0.0F, 0.0F, 0.0F};
  const float last[8] = {1.0F, 10.0F, 1100.0F, 0.0F, 111.0F, 0.0F, 0.0F, 1000.0F};
  int64_t wide[8];
  int32_t narrow[8];
  planck_tensor wide_indices = packed(wide, PLANCK_S64, 2, kShape, 8);
  planck_tensor narrow_indices = packed(narrow, PLANCK_S32, 2, kShape, 8);
  struct Gradients g;

  make_gradients(&g, PLANCK_CUMMAX);
  g.a.x = &g.forward.in;
  CHECK_OK(planck_scan_backward_run(&g.d, &g.a, NULL, 0, NULL));
  CHECK_ARRAY(first, g.dx);
  g.d.ties = PLANCK_TIES_LAST;
  CHECK_OK(planck_scan_backward_run(&g.d, &g.a, NULL, 0, NULL));
  CHECK_ARRAY(last, g.dx);

  make_gradients(&g, PLANCK_CUMMAX);
  g.forward.a.indices = g.a.indices = &wide_indices;
  CHECK_OK(planck_scan_run(&g.forward.d, &g.forward.a, NULL, 0, NULL));
  CHECK_OK(planck_scan_backward_run(&g.d, &g.a, NULL, 0, NULL));
  CHECK_ARRAY(first, g.dx);
  g.forward.a.indices = g.a.indices = &narrow_indices;
  g.forward.d.ties = g.d.ties = PLANCK_TIES_LAST;
  CHECK_OK(planck_scan_run(&g.forward.d, &g.forward.a, NULL, 0, NULL));
  CHECK_OK(planck_scan_backward_run(&g.d, &g.a, NULL, 0, NULL));
  CHECK_ARRAY(last, g.dx);
}

static void test_backward_log_sum_exp(void) {
  struct Gradients g;
  make_gradients(&g, PLANCK_LOG_CUMSUM_EXP);
  g.forward.x[0] = g.forward.x[4] = -INFINITY;
  g.forward.x[5] = INFINITY;
  CHECK_OK(planck_scan_run(&g.forward.d, &g.forward.a, NULL, 0, NULL));
  g.a.x = &g.forward.in;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "ScanBackwardPlan,y", planck_scan_backward_run(&g.d, &g.a, NULL, 0, NULL));
  g.a.y = &g.forward.out;
  CHECK_OK(planck_scan_backward_run(&g.d, &g.a, NULL, 0, NULL));
  CHECK(g.dx[0] == 0.0F && fabs(g.dx[1] + g.dx[2] + g.dx[3] - 1110.0) < 1e-3); /* a softmax shares all of dy out */
  CHECK(g.dx[4] == 0.0F && g.dx[5] == 1110.0F && g.dx[6] == 0.0F && g.dx[7] == 0.0F);
}

/* Checks run and can_implement alike, and that nothing was written. */
#define CHECK_SPOILT_GRADIENT(status, words)                                           \
  do {                                                                                 \
    CHECK_STATUS(status, words, planck_scan_backward_run(&g.d, &g.a, NULL, 0, NULL));  \
    CHECK_STATUS(status, words, planck_scan_backward_can_implement(&g.d, &g.a, NULL)); \
    CHECK(g.dx[0] == 77.0F && g.dx[7] == 77.0F);                                       \
    make_gradients(&g, PLANCK_CUMMAX);                                                 \
    g.a.x = &g.forward.in;                                                             \
  } while (0)

static void test_backward_errors(void) {
  static const int64_t columns[] = {1, 2};
  int64_t at[8] = {0};
  planck_tensor indices = packed(at, PLANCK_S64, 2, kShape, 8);
  struct Gradients g;
  make_gradients(&g, PLANCK_CUMMAX);

  CHECK_SPOILT_GRADIENT(PLANCK_INVALID_PROBLEM, "ScanBackwardPlan,x,Cummax");
  g.d.kind = PLANCK_CUMPROD;
  g.a.x = NULL;
  CHECK_SPOILT_GRADIENT(PLANCK_INVALID_PROBLEM, "ScanBackwardPlan,x,Cumprod");
  g.d.kind = 1000;
  CHECK_SPOILT_GRADIENT(PLANCK_UNSUPPORTED, "ScanBackwardPlan,kind = 1000");
  g.d.element = PLANCK_S32;
  CHECK_SPOILT_GRADIENT(PLANCK_UNSUPPORTED, "ScanBackwardPlan,element,s32");
  g.d.exclusive = 1;
  CHECK_SPOILT_GRADIENT(PLANCK_UNSUPPORTED, "ScanBackwardPlan,Cummax,exclusive");
  g.d.scan_axis = 2;
  CHECK_SPOILT_GRADIENT(PLANCK_INVALID_PROBLEM, "ScanBackwardPlan,scan_axis = 2");
  g.a.dx = NULL;
  CHECK_SPOILT_GRADIENT(PLANCK_INVALID_PROBLEM, "ScanBackwardPlan,to dx is null");
  g.forward.in.element = PLANCK_F64;
  CHECK_SPOILT_GRADIENT(PLANCK_INVALID_PROBLEM, "ScanBackwardPlan,x,f64,f32");
  g.d_in.data = g.dy; /* the memory of dy in another order */
  g.d_in.strides = columns;
  CHECK_SPOILT_GRADIENT(PLANCK_INVALID_PROBLEM, "ScanBackwardPlan,dx,dy");
  g.a.indices = &indices;
  g.d.kind = PLANCK_CUMSUM;
  CHECK_SPOILT_GRADIENT(PLANCK_INVALID_PROBLEM, "ScanBackwardPlan,index_element,only Cummax and Cummin");
  indices.element = PLANCK_F32;
  g.a.indices = &indices;
  CHECK_SPOILT_GRADIENT(PLANCK_UNSUPPORTED, "ScanBackwardPlan,index_element,f32");
}

/* A long row's products are kept in the workspace on the way to its end. */
static void test_backward_long_row(void) {
  enum { LENGTH = 1 << 16 };
  static const int64_t shape[] = {LENGTH};
  static float x_data[LENGTH], dx_data[LENGTH];
  static const int64_t repeated[] = {0};
  float one = 1.0F;
  planck_tensor x = packed(x_data, PLANCK_F32, 1, shape, LENGTH);
  planck_tensor dx = packed(dx_data, PLANCK_F32, 1, shape, LENGTH);
  planck_tensor dy = packed(&one, PLANCK_F32, 1, shape, 1);
  planck_scan_backward_descriptor d = {
      .kind = PLANCK_CUMPROD, .input_shape = shape_of(1, shape), .element = PLANCK_F32};
  planck_scan_backward_args a = {.dy = &dy, .dx = &dx, .x = &x};
  size_t bytes = 0;
  char* workspace;
  int wrong = 0;
  int i;
  dy.strides = repeated;
  for (i = 0; i < LENGTH; ++i) x_data[i] = -1.0F;
  CHECK_OK(planck_scan_backward_workspace_size(&d, NULL, &bytes));
  CHECK(bytes > 0);
  workspace = malloc(bytes + 1);
  CHECK(workspace != NULL);
  if (workspace == NULL) return;
  CHECK_STATUS(PLANCK_WORKSPACE_TOO_SMALL, "ScanBackwardPlan,workspace",
               planck_scan_backward_run(&d, &a, workspace, bytes - 1, NULL));
  CHECK(dx_data[0] == 0.0F && dx_data[LENGTH - 1] == 0.0F);
  CHECK_OK(planck_scan_backward_run(&d, &a, workspace + 1, bytes, NULL));
  /* dx[j] = (-1)^j * (1 - 1 + 1 …): of an odd number of terms 1, of an even number 0. */
  for (i = 0; i < LENGTH; ++i) wrong += dx_data[i] != ((LENGTH - i) % 2 == 0 ? 0.0F : -1.0F);
  CHECK(wrong == 0);
  free(workspace);
}

static void test_linear_recurrence_backward(void) {
  static const int64_t shape[] = {3};
  static const int64_t one[] = {1};
  double a_data[3] = {2.0, 3.0, 4.0};
  double h_data[3] = {21.0, 64.0, 257.0}; /* of b = 1 and the initial state 10 */
  double dh_data[3] = {1.0, 10.0, 100.0};
  double start_data[1] = {10.0};
  double da_data[3], db_data[3], d_start_data[1];
  const double db_expected[3] = {1231.0, 410.0, 100.0};
  const double da_expected[3] = {12310.0, 8610.0, 6400.0};
  const double da_from_zero[3] = {0.0, 8610.0, 6400.0};
  const double reverse_db[3] = {1.0, 12.0, 136.0};
  const double d_start_expected[1] = {2462.0};
  planck_tensor a = packed(a_data, PLANCK_F64, 1, shape, 3);
  planck_tensor h = packed(h_data, PLANCK_F64, 1, shape, 3);
  planck_tensor dh = packed(dh_data, PLANCK_F64, 1, shape, 3);
  planck_tensor start = packed(start_data, PLANCK_F64, 1, one, 1);
  planck_tensor da = packed(da_data, PLANCK_F64, 1, shape, 3);
  planck_tensor db = packed(db_data, PLANCK_F64, 1, shape, 3);
  planck_tensor d_start = packed(d_start_data, PLANCK_F64, 1, one, 1);
  planck_linear_recurrence_backward_descriptor d = {.input_shape = shape_of(1, shape), .element = PLANCK_F64};
  planck_linear_recurrence_backward_args args = {
      .dh = &dh, .a = &a, .h = &h, .initial = &start, .da = &da, .db = &db, .d_initial = &d_start};
  size_t bytes = 1;

  CHECK_OK(planck_linear_recurrence_backward_workspace_size(&d, NULL, &bytes));
  CHECK(bytes == 0);
  CHECK_OK(planck_linear_recurrence_backward_can_implement(&d, &args, NULL));
  CHECK_OK(planck_linear_recurrence_backward_run(&d, &args, NULL, 0, NULL));
  CHECK_ARRAY(da_expected, da_data);
  CHECK_ARRAY(db_expected, db_data);
  CHECK_ARRAY(d_start_expected, d_start_data);

  /* Without the initial state: it was 0 and has no gradient. */
  args.initial = args.d_initial = NULL;
  CHECK_OK(planck_linear_recurrence_backward_run(&d, &args, NULL, 0, NULL));
  CHECK_ARRAY(da_from_zero, da_data);
  CHECK_ARRAY(db_expected, db_data);

  /* Its gradient does not need its value; da does. */
  memset(d_start_data, 0, sizeof d_start_data);
  args = (planck_linear_recurrence_backward_args){.dh = &dh, .a = &a, .d_initial = &d_start};
  CHECK_OK(planck_linear_recurrence_backward_run(&d, &args, NULL, 0, NULL));
  CHECK_ARRAY(d_start_expected, d_start_data);
  args.da = &da;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "LinearRecurrenceBackwardPlan,h,da",
               planck_linear_recurrence_backward_run(&d, &args, NULL, 0, NULL));
  args.h = &h;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "LinearRecurrenceBackwardPlan,initial,da",
               planck_linear_recurrence_backward_can_implement(&d, &args, NULL));
  args.da = args.d_initial = NULL;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "LinearRecurrenceBackwardPlan,d_initial",
               planck_linear_recurrence_backward_run(&d, &args, NULL, 0, NULL));

  args = (planck_linear_recurrence_backward_args){.dh = &dh, .a = &a, .db = &dh}; /* in place */
  d.scan_axis = -1;
  d.reverse = 1;
  CHECK_OK(planck_linear_recurrence_backward_run(&d, &args, NULL, 0, NULL));
  CHECK_ARRAY(reverse_db, dh_data);
  d.scan_axis = 1;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "LinearRecurrenceBackwardPlan,scan_axis = 1,[3]",
               planck_linear_recurrence_backward_run(&d, &args, NULL, 0, NULL));
}

/* Two sequences of three and five elements behind one another, and an empty one between them. */
static void test_segments(void) {
  static const int64_t shape[] = {8};
  static const int64_t offsets_shape[] = {4};
  static const int64_t start_shape[] = {3};
  int64_t wide[4] = {0, 3, 3, 8};
  int32_t narrow[4] = {0, 3, 3, 8};
  float x_data[8] = {1.0F, 2.0F, 3.0F, 1.0F, 4.0F, 2.0F, 8.0F, 4.0F};
  float half_data[8] = {0.5F, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F};
  float start_data[3] = {4.0F, 99.0F, 16.0F};
  float d_start_data[3] = {7.0F, 7.0F, 7.0F};
  float y_data[8];
  int64_t winners[8];
  const float sums[8] = {1.0F, 3.0F, 6.0F, 1.0F, 5.0F, 7.0F, 15.0F, 19.0F};
  const float gradient[8] = {6.0F, 5.0F, 3.0F, 19.0F, 18.0F, 14.0F, 12.0F, 4.0F};
  const int64_t first[8] = {0, 1, 2, 0, 1, 1, 3, 3};
  const float states[8] = {3.0F, 3.5F, 4.75F, 9.0F, 8.5F, 6.25F, 11.125F, 9.5625F};
  const float d_starts[3] = {1.375F, 0.0F, 2.375F};
  planck_tensor x = packed(x_data, PLANCK_F32, 1, shape, 8);
  planck_tensor y = packed(y_data, PLANCK_F32, 1, shape, 8);
  planck_tensor half = packed(half_data, PLANCK_F32, 1, shape, 8);
  planck_tensor start = packed(start_data, PLANCK_F32, 1, start_shape, 3);
  planck_tensor d_start = packed(d_start_data, PLANCK_F32, 1, start_shape, 3);
  planck_tensor indices = packed(winners, PLANCK_S64, 1, shape, 8);
  planck_tensor offsets = packed(wide, PLANCK_S64, 1, offsets_shape, 4);
  planck_tensor narrow_offsets = packed(narrow, PLANCK_S32, 1, offsets_shape, 4);
  planck_scan_descriptor d = {
      .kind = PLANCK_CUMSUM, .input_shape = shape_of(1, shape), .element = PLANCK_F32, .segments = 3};
  planck_scan_args a = {.x = &x, .y = &y, .offsets = &offsets};
  planck_scan_backward_args back = {.dy = &x, .dx = &y, .offsets = &narrow_offsets};
  planck_linear_recurrence_descriptor r = {.input_shape = shape_of(1, shape), .element = PLANCK_F32, .segments = 3};
  planck_linear_recurrence_args ra = {.a = &half, .b = &x, .initial = &start, .h = &y, .offsets = &offsets};
  planck_linear_recurrence_backward_args rb = {.dh = &x, .a = &half, .d_initial = &d_start, .offsets = &offsets};
  size_t bytes = 1;

  CHECK_OK(planck_scan_workspace_size(&d, NULL, &bytes));
  CHECK(bytes == 0);
  CHECK_OK(planck_scan_can_implement(&d, &a, NULL));
  CHECK_OK(planck_scan_run(&d, &a, NULL, 0, NULL));
  CHECK_ARRAY(sums, y_data);
  CHECK_OK(planck_scan_backward_run(&d, &back, NULL, 0, NULL));
  CHECK_ARRAY(gradient, y_data);
  d.kind = PLANCK_CUMMAX;
  a.indices = &indices;
  a.offsets = &narrow_offsets;
  CHECK_OK(planck_scan_run(&d, &a, NULL, 0, NULL));
  CHECK_ARRAY(first, winners);
  CHECK_OK(planck_linear_recurrence_workspace_size(&r, NULL, &bytes));
  CHECK_OK(planck_linear_recurrence_run(&r, &ra, NULL, 0, NULL));
  CHECK_ARRAY(states, y_data);
  CHECK_OK(planck_linear_recurrence_backward_run(&r, &rb, NULL, 0, NULL));
  CHECK_ARRAY(d_starts, d_start_data);

  wide[2] = 2;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "LinearRecurrencePlan,offsets[2] = 2,[3",
               planck_linear_recurrence_run(&r, &ra, NULL, 0, NULL));
  ra.offsets = NULL;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "LinearRecurrencePlan,offsets,absent",
               planck_linear_recurrence_run(&r, &ra, NULL, 0, NULL));
  d.segments = 2;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "ScanPlan,offsets,[4],[3]", planck_scan_run(&d, &a, NULL, 0, NULL));
  d.segments = 0;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "ScanPlan,segments = 0,1,8", planck_scan_run(&d, &a, NULL, 0, NULL));
}

void test_scans(void) {
  test_sums_and_products();
  test_log_sum_exp();
  test_integers();
  test_extrema();
  test_scan_errors();
  test_long_rows();
  test_long_rows_with_indices();
  test_pieces();
  test_linear_recurrence();
  test_backward_sums_and_products();
  test_backward_extrema();
  test_backward_log_sum_exp();
  test_backward_errors();
  test_backward_long_row();
  test_linear_recurrence_backward();
  test_segments();
}
