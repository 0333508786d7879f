/* Every status a caller can provoke through the C ABI, with the words of its message, and every null pointer.
 *
 * Each case starts from a good call and spoils one thing, so it is that thing the library must notice; the
 * outputs must then be as they were.
 */
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "check.h"

static const int64_t kShape[] = {4};
static const int64_t kNine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};

/* A good call of fake-quantise; the arrays have an element to spare for a misaligned pointer. */
struct Good {
  float x[5];
  float y[5];
  planck_tensor in;
  planck_tensor out;
  planck_fake_quantize_descriptor d;
  planck_fake_quantize_args a;
};

static void make_good(struct Good* g) {
  int i;
  for (i = 0; i < 5; ++i) {
    g->x[i] = (float)i;
    g->y[i] = 77.0F;
  }
  g->in = packed(g->x, PLANCK_F32, 1, kShape, 4);
  g->out = packed(g->y, PLANCK_F32, 1, kShape, 4);
  g->d = (planck_fake_quantize_descriptor){
      .shape = shape_of(1, kShape), .q_min = -8, .q_max = 7, .input_element = PLANCK_F32};
  g->a = (planck_fake_quantize_args){.input = &g->in, .scale = 1.0, .output = &g->out};
}

/* Checks run and can_implement alike, and that nothing was written. */
#define CHECK_SPOILT(status, words)                                                    \
  do {                                                                                 \
    CHECK_STATUS(status, words, planck_fake_quantize_run(&g.d, &g.a, NULL, 0, NULL));  \
    CHECK_STATUS(status, words, planck_fake_quantize_can_implement(&g.d, &g.a, NULL)); \
    CHECK(g.y[0] == 77.0F && g.y[3] == 77.0F && g.x[1] == 1.0F);                       \
    make_good(&g);                                                                     \
  } while (0)

static void test_tensor_errors(void) {
  static const int64_t five[] = {5};
  static const int64_t zero_stride[] = {0};
  static const int64_t huge_stride[] = {INT64_MAX / 2};
  struct Good g;
  make_good(&g);
  CHECK_OK(planck_fake_quantize_can_implement(&g.d, &g.a, NULL));
  CHECK(g.y[0] == 77.0F);

  g.in.data = (char*)g.x + 2;
  CHECK_SPOILT(PLANCK_MISALIGNED_OPERAND, "FakeQuantizePlan,input,4 bytes,f32");
  g.out.data = (char*)g.y + 1;
  CHECK_SPOILT(PLANCK_MISALIGNED_OPERAND, "FakeQuantizePlan,output,4 bytes,f32");
  g.in.capacity = 3;
  CHECK_SPOILT(PLANCK_BUFFER_TOO_SMALL, "FakeQuantizePlan,input,0 to 3,of 3");
  g.out.offset = 2;
  CHECK_SPOILT(PLANCK_BUFFER_TOO_SMALL, "FakeQuantizePlan,output,2 to 5,of 4");
  g.in.capacity = -1;
  CHECK_SPOILT(PLANCK_BUFFER_TOO_SMALL, "input,of -1");
  g.in.shape = five;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "FakeQuantizePlan,input,[5],[4]");
  g.in.element = PLANCK_F64;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "FakeQuantizePlan,input,f64,f32");
  g.in.element = 99;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "FakeQuantizePlan,input,99,f32");
  g.in.data = NULL;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "FakeQuantizePlan,input,4 elements,null");
  g.out.data = NULL;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "FakeQuantizePlan,output,4 elements,null");
  g.out.strides = zero_stride;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "FakeQuantizePlan,output,[4],[0]");
  g.in.strides = huge_stride;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "FakeQuantizePlan,input,4611686018427387903");
  g.out.data = g.x + 1;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "FakeQuantizePlan,output overlaps input");

  /* What looks like an error and is none: in place, and a repeated input element. */
  g.in.strides = zero_stride;
  CHECK_OK(planck_fake_quantize_run(&g.d, &g.a, NULL, 0, NULL));
  CHECK(g.y[3] == 0.0F);
  make_good(&g);
  g.out.data = g.x;
  CHECK_OK(planck_fake_quantize_run(&g.d, &g.a, NULL, 0, NULL));
}

static void test_descriptor_errors(void) {
  static const int64_t negative[] = {-4};
  static const int64_t huge[] = {INT64_MAX / 4, 2};
  struct Good g;
  make_good(&g);

  g.d.q_min = 8;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "FakeQuantizePlan,q_min = 8,q_max = 7");
  g.d.q_max = (1 << 20) + 1;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "FakeQuantizePlan,q_max = 1048577,1048576]");
  g.d.scale_form = 2;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "FakeQuantizePlan,scale_form = 2");
  g.d.shape.extents = negative;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "FakeQuantizePlan,shape = [-4]");
  g.d.shape = shape_of(2, huge);
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "FakeQuantizePlan,shape,2305843009213693951");
  g.d.input_element = PLANCK_S32;
  CHECK_SPOILT(PLANCK_UNSUPPORTED, "FakeQuantizePlan,input_element,s32");
  g.d.input_element = -7;
  CHECK_SPOILT(PLANCK_UNSUPPORTED, "FakeQuantizePlan,input_element,-7");
  g.d.shape.rank = -1;
  CHECK_SPOILT(PLANCK_UNSUPPORTED, "FakeQuantizePlan,shape,rank -1");
  g.d.shape = shape_of(9, kNine);
  CHECK_SPOILT(PLANCK_UNSUPPORTED, "FakeQuantizePlan,shape,rank 9,0 to 8");
  g.in.rank = -1;
  CHECK_SPOILT(PLANCK_UNSUPPORTED, "FakeQuantizePlan,input,rank -1");
  g.out.rank = 9;
  g.out.shape = kNine;
  CHECK_SPOILT(PLANCK_UNSUPPORTED, "FakeQuantizePlan,output,rank 9");
}

static void test_scalar_errors(void) {
  struct Good g;
  make_good(&g);
  g.a.scale = 0.0;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "FakeQuantizePlan,scale = 0,f32");
  g.a.scale = -1.5;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "scale = -1.5");
  g.a.scale = NAN;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "scale = ,nan");
  g.a.scale = INFINITY;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "scale = inf");
  g.a.scale = 1e300; /* infinite as f32 */
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "scale = 1e+300");
  g.a.scale = FLT_MIN / 2.0;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "scale = ,smallest normal");
  g.a.zero_point = -(1 << 20) - 1;
  CHECK_SPOILT(PLANCK_INVALID_PROBLEM, "FakeQuantizePlan,zero_point = -1048577");
  g.a.scale = FLT_MIN;
  CHECK_OK(planck_fake_quantize_can_implement(&g.d, &g.a, NULL));
  g.a.scale = 0.0;
  g.d.trust_qparams = 1;
  CHECK_OK(planck_fake_quantize_can_implement(&g.d, &g.a, NULL));
}

/* Empty tensors need no memory; rank 0 has one element. */
static void test_empty_and_scalar_shapes(void) {
  static const int64_t empty[] = {3, 0};
  struct Good g;
  make_good(&g);
  g.d.shape = shape_of(2, empty);
  g.in = packed(NULL, PLANCK_F32, 2, empty, 0);
  g.out = packed(NULL, PLANCK_F32, 2, empty, 0);
  CHECK_OK(planck_fake_quantize_run(&g.d, &g.a, NULL, 0, NULL));
  make_good(&g);
  g.d.shape = shape_of(0, NULL);
  g.in = packed(g.x + 3, PLANCK_F32, 0, NULL, 1);
  g.out = packed(g.y, PLANCK_F32, 0, NULL, 1);
  CHECK_OK(planck_fake_quantize_run(&g.d, &g.a, NULL, 0, NULL));
  CHECK(g.y[0] == 3.0F && g.y[1] == 77.0F);
}

static void test_device_errors(void) {
  struct Good g;
  planck_stream cuda = {PLANCK_CUDA, 0, NULL, NULL, 0, NULL};
  size_t bytes = 123;
  make_good(&g);
  CHECK_STATUS(PLANCK_UNSUPPORTED, "FakeQuantizePlan,CUDA", planck_fake_quantize_run(&g.d, &g.a, NULL, 0, &cuda));
  CHECK_STATUS(PLANCK_UNSUPPORTED, "FakeQuantizePlan,CUDA", planck_fake_quantize_can_implement(&g.d, &g.a, &cuda));
  CHECK_STATUS(PLANCK_UNSUPPORTED, "FakeQuantizePlan,CUDA", planck_fake_quantize_workspace_size(&g.d, &cuda, &bytes));
  CHECK(bytes == 123);
  cuda.device = 7;
  CHECK(planck_fake_quantize_run(&g.d, &g.a, NULL, 0, &cuda) != PLANCK_OK);
  CHECK(planck_last_backend_code() == 0);
  CHECK(g.y[0] == 77.0F);
}

/* What a short buffer or workspace needed and had, as numbers; 0 after errors of other kinds. */
static void test_needed_and_got(void) {
  static const int64_t shape[] = {4000, 8}, columns[] = {8};
  static float x[32000], w[8], dw[8];
  const planck_shape weight_shape = {1, columns};
  const planck_binary_param_descriptor d = {
      .kind = PLANCK_LERP, .shape = {2, shape}, .element = PLANCK_F32, .weight_shape = &weight_shape};
  const planck_tensor x_view = packed(x, PLANCK_F32, 2, shape, 32000), w_view = packed(w, PLANCK_F32, 1, columns, 8);
  const planck_tensor dw_view = packed(dw, PLANCK_F32, 1, columns, 8);
  const planck_binary_param_backward_args a = {
      .dy = &x_view, .a = &x_view, .b = &x_view, .weight = &w_view, .d_weight = &dw_view};
  unsigned char memory[16];
  size_t bytes = 0;
  struct Good g;
  make_good(&g);
  g.in.capacity = 3;
  CHECK_STATUS(PLANCK_BUFFER_TOO_SMALL, "input", planck_fake_quantize_run(&g.d, &g.a, NULL, 0, NULL));
  CHECK(planck_last_needed() == 4 && planck_last_got() == 3);

  CHECK_OK(planck_binary_param_backward_workspace_size(&d, NULL, &bytes));
  CHECK(bytes > sizeof memory);
  CHECK_STATUS(PLANCK_WORKSPACE_TOO_SMALL, "workspace",
               planck_binary_param_backward_run(&d, &a, memory, sizeof memory, NULL));
  CHECK(planck_last_needed() == (int64_t)bytes && planck_last_got() == (int64_t)sizeof memory);

  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "workspace,address space",
               planck_binary_param_backward_run(&d, &a, memory, SIZE_MAX, NULL));
  CHECK(planck_last_needed() == 0 && planck_last_got() == 0);
}

static void test_binary_errors(void) {
  static const int64_t two[] = {2};
  struct Good g;
  planck_shape full = shape_of(1, kShape);
  planck_shape wrong = shape_of(1, two);
  planck_binary_param_descriptor d = {PLANCK_LERP, shape_of(1, kShape), PLANCK_F32, 0.5, NULL, NULL, NULL};
  planck_binary_param_args a;
  planck_binary_param_backward_args back = {NULL, NULL, NULL, NULL, NULL, NULL, NULL};
  make_good(&g);
  a = (planck_binary_param_args){&g.in, &g.in, NULL, &g.out};
  back.dy = &g.in;
  back.da = &g.out;
  CHECK_OK(planck_binary_param_can_implement(&d, &a, NULL));
  CHECK_OK(planck_binary_param_backward_can_implement(&d, &back, NULL));

  d.kind = 30;
  CHECK_STATUS(PLANCK_UNSUPPORTED, "BinaryParamPlan,kind = 30", planck_binary_param_run(&d, &a, NULL, 0, NULL));
  d.kind = PLANCK_LERP;
  d.weight_shape = &wrong;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "weight_shape = [2],[4]", planck_binary_param_run(&d, &a, NULL, 0, NULL));
  d.weight_shape = &full;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "weight is absent", planck_binary_param_run(&d, &a, NULL, 0, NULL));
  d.weight_shape = NULL;
  a.weight = &g.in;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "weight is present", planck_binary_param_run(&d, &a, NULL, 0, NULL));
  wrong.rank = 9;
  d.a_shape = &wrong;
  CHECK_STATUS(PLANCK_UNSUPPORTED, "a_shape,rank 9", planck_binary_param_run(&d, &a, NULL, 0, NULL));
  d.a_shape = NULL;

  back.d_weight = &g.out;
  back.da = NULL;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "d_weight is present",
               planck_binary_param_backward_run(&d, &back, NULL, 0, NULL));
  d.weight_shape = &full;
  back.weight = &g.in;
  back.a = &g.in;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "b is absent,d_weight",
               planck_binary_param_backward_run(&d, &back, NULL, 0, NULL));
  back.d_weight = NULL;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "every output is absent (da",
               planck_binary_param_backward_run(&d, &back, NULL, 0, NULL));
  CHECK(g.y[0] == 77.0F);
}

static void* read_and_fail(void* first_message) {
  size_t bytes;
  *(int*)first_message = planck_last_error_message()[0] == '\0';
  *(int*)first_message &= planck_dequantize_workspace_size(NULL, NULL, &bytes) != PLANCK_OK;
  return NULL;
}

/* Another thread starts without an error, and its error does not replace this thread's. */
static void test_messages_are_per_thread(void) {
  pthread_t thread;
  size_t bytes;
  int other_was_empty = 0;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "BinaryParamPlan", planck_binary_param_workspace_size(NULL, NULL, &bytes));
  CHECK(pthread_create(&thread, NULL, read_and_fail, &other_was_empty) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(other_was_empty);
  CHECK(strstr(planck_last_error_message(), "BinaryParamPlan") != NULL);
}

void test_errors(void) {
  test_messages_are_per_thread();
  test_tensor_errors();
  test_descriptor_errors();
  test_scalar_errors();
  test_empty_and_scalar_shapes();
  test_device_errors();
  test_needed_and_got();
  test_binary_errors();
}

/* For one operation: a null descriptor, null args, null bytes, and args that are all null. */
#define CHECK_NULLS(op, plan, descriptor, first)                                                                \
  do {                                                                                                          \
    planck_##op##_args zero;                                                                                    \
    size_t bytes = 5;                                                                                           \
    memset(&zero, 0, sizeof zero);                                                                              \
    CHECK_STATUS(PLANCK_INVALID_PROBLEM, plan ",descriptor", planck_##op##_run(NULL, &zero, NULL, 0, NULL));    \
    CHECK_STATUS(PLANCK_INVALID_PROBLEM, plan ",descriptor", planck_##op##_can_implement(NULL, &zero, NULL));   \
    CHECK_STATUS(PLANCK_INVALID_PROBLEM, plan ",descriptor", planck_##op##_workspace_size(NULL, NULL, &bytes)); \
    CHECK_STATUS(PLANCK_INVALID_PROBLEM, plan ",args", planck_##op##_run(descriptor, NULL, NULL, 0, NULL));     \
    CHECK_STATUS(PLANCK_INVALID_PROBLEM, plan ",args", planck_##op##_can_implement(descriptor, NULL, NULL));    \
    CHECK_STATUS(PLANCK_INVALID_PROBLEM, plan ",bytes", planck_##op##_workspace_size(descriptor, NULL, NULL));  \
    CHECK_STATUS(PLANCK_INVALID_PROBLEM, plan "," first, planck_##op##_run(descriptor, &zero, NULL, 0, NULL));  \
    CHECK(bytes == 5);                                                                                          \
  } while (0)

void test_null_pointers(void) {
  planck_fake_quantize_descriptor fake = {.shape = {1, NULL}, .q_min = -8, .q_max = 7, .input_element = PLANCK_F32};
  planck_dequantize_descriptor dequantize = {
      .shape = {1, NULL}, .input_element = PLANCK_S8, .output_element = PLANCK_F32};
  planck_quantize_descriptor quantize = {
      .shape = {1, NULL}, .q_max = 7, .input_element = PLANCK_F32, .output_element = PLANCK_U8};
  planck_scan_descriptor scan = {.kind = PLANCK_CUMSUM, .input_shape = {1, NULL}, .element = PLANCK_F32};
  planck_linear_recurrence_descriptor recurrence = {.input_shape = {1, NULL}, .element = PLANCK_F32};
  planck_binary_param_descriptor binary = {PLANCK_LERP, {1, NULL}, PLANCK_F32, 0.5, NULL, NULL, NULL};
  size_t bytes;
  struct Good g;

  /* Null extents of a rank that needs some. */
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "shape,null", planck_fake_quantize_workspace_size(&fake, NULL, &bytes));
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "input_shape,null", planck_scan_workspace_size(&scan, NULL, &bytes));
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "LinearRecurrencePlan,input_shape,null",
               planck_linear_recurrence_workspace_size(&recurrence, NULL, &bytes));
  scan.input_shape.extents = recurrence.input_shape.extents = kShape;
  fake.shape.extents = quantize.shape.extents = dequantize.shape.extents = binary.shape.extents = kShape;

  CHECK_NULLS(fake_quantize, "FakeQuantizePlan", &fake, "input");
  CHECK_NULLS(fake_quantize_backward, "FakeQuantizeBackwardPlan", &fake, "input");
  CHECK_NULLS(quantize, "QuantizePlan", &quantize, "input");
  CHECK_NULLS(quantize_backward, "QuantizeBackwardPlan", &quantize, "input");
  CHECK_NULLS(dequantize, "DequantizePlan", &dequantize, "input");
  CHECK_NULLS(dequantize_backward, "DequantizeBackwardPlan", &dequantize, "d_output");
  CHECK_NULLS(scan, "ScanPlan", &scan, "to x is null");
  CHECK_NULLS(scan_backward, "ScanBackwardPlan", &scan, "to dy is null");
  CHECK_NULLS(linear_recurrence, "LinearRecurrencePlan", &recurrence, "to a is null");
  CHECK_NULLS(linear_recurrence_backward, "LinearRecurrenceBackwardPlan", &recurrence, "to dh is null");
  CHECK_NULLS(binary_param, "BinaryParamPlan", &binary, "to a is null");
  CHECK_NULLS(binary_param_backward, "BinaryParamBackwardPlan", &binary, "dy");

  make_good(&g);
  g.a.output = NULL;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "output,null", planck_fake_quantize_run(&g.d, &g.a, NULL, 0, NULL));
  make_good(&g);
  g.in.shape = NULL;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "input,null", planck_fake_quantize_run(&g.d, &g.a, NULL, 0, NULL));
}
