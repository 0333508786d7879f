/* The quantise family through the C ABI: quantise in every granularity's shape, scale and zero-point tensors, the
 * summed gradients of learnable parameters with their workspace, and what is refused.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static void test_quantize_per_tensor(void) {
  static const int64_t shape[] = {6};
  float x[6] = {-1.0F, 0.24F, 0.25F, 0.75F, 100.0F, NAN};
  float dy[6] = {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F};
  int8_t q[6];
  float dx[6];
  const int8_t expected[6] = {1, 3, 3, 5, 7, 3};
  const float expected_dx[6] = {2.0F, 4.0F, 6.0F, 8.0F, 0.0F, 0.0F};
  planck_tensor in = packed(x, PLANCK_F32, 1, shape, 6);
  planck_tensor out = packed(q, PLANCK_S8, 1, shape, 6);
  planck_tensor d_out = packed(dy, PLANCK_F32, 1, shape, 6);
  planck_tensor d_in = packed(dx, PLANCK_F32, 1, shape, 6);
  planck_quantize_descriptor d = {
      .shape = shape_of(1, shape), .q_min = -8, .q_max = 7, .input_element = PLANCK_F32, .output_element = PLANCK_S8};
  planck_quantize_args a = {.input = &in, .scale = 0.5, .zero_point = 3, .output = &out};
  planck_quantize_backward_args back = {
      .input = &in, .scale = 0.5, .zero_point = 3, .d_output = &d_out, .d_input = &d_in};
  size_t bytes = 1;

  CHECK_OK(planck_quantize_workspace_size(&d, NULL, &bytes));
  CHECK(bytes == 0);
  CHECK_OK(planck_quantize_can_implement(&d, &a, NULL));
  CHECK_OK(planck_quantize_run(&d, &a, NULL, 0, NULL));
  CHECK_ARRAY(expected, q);

  bytes = 1;
  CHECK_OK(planck_quantize_backward_workspace_size(&d, NULL, &bytes));
  CHECK(bytes == 0);
  CHECK_OK(planck_quantize_backward_can_implement(&d, &back, NULL));
  CHECK_OK(planck_quantize_backward_run(&d, &back, NULL, 0, NULL));
  CHECK_ARRAY(expected_dx, dx);
}

/* A scale and a zero point for each column. */
static void test_quantize_per_channel(void) {
  static const int64_t shape[] = {2, 3};
  static const int64_t channels[] = {3};
  float x[6] = {2.5F, -1.0F, 30.0F, -5.0F, 200.0F, -100.0F};
  float dy[6] = {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F};
  float scales[3] = {1.0F, 0.5F, 2.0F};
  int32_t zero_points[3] = {0, 128, 10};
  uint8_t q[6];
  float dx[6];
  const uint8_t expected[6] = {2, 126, 25, 0, 255, 0};
  const float expected_dx[6] = {1.0F, 4.0F, 1.5F, 0.0F, 0.0F, 0.0F};
  planck_tensor in = packed(x, PLANCK_F32, 2, shape, 6);
  planck_tensor scale = packed(scales, PLANCK_F32, 1, channels, 3);
  planck_tensor zero_point = packed(zero_points, PLANCK_S32, 1, channels, 3);
  planck_tensor out = packed(q, PLANCK_U8, 2, shape, 6);
  planck_tensor d_out = packed(dy, PLANCK_F32, 2, shape, 6);
  planck_tensor d_in = packed(dx, PLANCK_F32, 2, shape, 6);
  planck_quantize_descriptor d = {.shape = shape_of(2, shape),
                                  .q_min = 0,
                                  .q_max = 255,
                                  .input_element = PLANCK_F32,
                                  .output_element = PLANCK_U8,
                                  .scope = {.kind = PLANCK_PER_CHANNEL, .axis = 1}};
  planck_quantize_args a = {.input = &in, .scale_tensor = &scale, .zero_point_tensor = &zero_point, .output = &out};
  planck_quantize_backward_args back = {
      .input = &in, .scale_tensor = &scale, .zero_point_tensor = &zero_point, .d_output = &d_out, .d_input = &d_in};

  CHECK_OK(planck_quantize_run(&d, &a, NULL, 0, NULL));
  CHECK_ARRAY(expected, q);
  memset(q, 9, sizeof q);
  d.scope.axis = -1;
  CHECK_OK(planck_quantize_run(&d, &a, NULL, 0, NULL));
  CHECK_ARRAY(expected, q);
  CHECK_OK(planck_quantize_backward_run(&d, &back, NULL, 0, NULL));
  CHECK_ARRAY(expected_dx, dx);
}

/* Groups of two along rows of five: the last one has a single element. */
static void test_dequantize_per_group(void) {
  static const int64_t shape[] = {2, 5};
  static const int64_t groups[] = {2, 3};
  int8_t q[10] = {1, 2, 3, 4, 5, -1, -2, -3, -4, -5};
  double scales[6] = {1.0, 2.0, 4.0, 0.5, 0.25, 8.0};
  double x[10];
  double ones[10];
  double dq[10];
  const double expected[10] = {0.0, 1.0, 4.0, 6.0, 16.0, -1.0, -1.5, -1.0, -1.25, -48.0};
  const double expected_dq[10] = {1.0, 1.0, 2.0, 2.0, 4.0, 0.5, 0.5, 0.25, 0.25, 8.0};
  planck_tensor in = packed(q, PLANCK_S8, 2, shape, 10);
  planck_tensor scale = packed(scales, PLANCK_F64, 2, groups, 6);
  planck_tensor out = packed(x, PLANCK_F64, 2, shape, 10);
  planck_tensor d_out = packed(ones, PLANCK_F64, 2, shape, 10);
  planck_tensor d_in = packed(dq, PLANCK_F64, 2, shape, 10);
  planck_dequantize_descriptor d = {.shape = shape_of(2, shape),
                                    .input_element = PLANCK_S8,
                                    .output_element = PLANCK_F64,
                                    .scope = {.kind = PLANCK_PER_GROUP, .axis = 1, .group_size = 2}};
  /* The scales are a tensor, the zero point one number for all. */
  planck_dequantize_args a = {.input = &in, .scale_tensor = &scale, .zero_point = 1, .output = &out};
  planck_dequantize_backward_args back = {.scale_tensor = &scale, .d_output = &d_out, .d_input = &d_in};
  int i;

  for (i = 0; i < 10; ++i) ones[i] = 1.0;
  CHECK_OK(planck_dequantize_run(&d, &a, NULL, 0, NULL));
  CHECK_ARRAY(expected, x);
  CHECK_OK(planck_dequantize_backward_run(&d, &back, NULL, 0, NULL));
  CHECK_ARRAY(expected_dq, dq);
}

/* The element of the scale tensor says what kind the scales are: here the tensor's own. */
static void test_fake_quantize_per_token_with_bf16_scales(void) {
  static const int64_t shape[] = {2, 2};
  static const int64_t tokens[] = {2};
  uint16_t x[4] = {0x3F33, 0x3F80, 0x4040, 0xC0A0}; /* 0.7, 1, 3, -5 */
  uint16_t scales[2] = {0x3F00, 0x4000};            /* 0.5, 2 */
  uint16_t y[4];
  const uint16_t expected[4] = {0x3F00, 0x3F80, 0x4080, 0xC080}; /* 0.5, 1, 4, -4 */
  planck_tensor in = packed(x, PLANCK_BF16, 2, shape, 4);
  planck_tensor scale = packed(scales, PLANCK_BF16, 1, tokens, 2);
  planck_tensor out = packed(y, PLANCK_BF16, 2, shape, 4);
  planck_fake_quantize_descriptor d = {.shape = shape_of(2, shape),
                                       .q_min = -8,
                                       .q_max = 7,
                                       .input_element = PLANCK_BF16,
                                       .scope = {.kind = PLANCK_PER_TOKEN}};
  planck_fake_quantize_args a = {.input = &in, .scale_tensor = &scale, .output = &out};
  CHECK_OK(planck_fake_quantize_run(&d, &a, NULL, 0, NULL));
  CHECK_ARRAY(expected, y);
}

enum { LENGTH = 8192, REPEATS = LENGTH / 4 };

/* Two channels of four values over and over; the sums are exact, so they can be written down. */
static void test_learnable(void) {
  static const int64_t shape[] = {2, LENGTH};
  static const int64_t channels[] = {2};
  static const float x_rows[2][4] = {{0.75F, 10.0F, -10.0F, 0.5F}, {0.25F, NAN, 6.0F, -10.25F}};
  static const float dy_rows[2][4] = {{1.0F, 2.0F, 3.0F, 4.0F}, {1.0F, 1.0F, 2.0F, 4.0F}};
  static const float dx_rows[2][4] = {{1.0F, 0.0F, 0.0F, 4.0F}, {1.0F, 0.0F, 0.0F, 4.0F}};
  static float x[2 * LENGTH], dy[2 * LENGTH], dx[2 * LENGTH], expected_dx[2 * LENGTH];
  float scales[2] = {0.5F, 1.0F};
  int32_t zero_points[2] = {0, 2}; /* ranges [-8, 7] and [-10, 5] */
  float d_scales[2] = {9.0F, 9.0F};
  float d_zero_points[2] = {9.0F, 9.0F};
  /* 1*(2 - 1.5) + 2*7 + 3*(-8) + 4*0 and 1*(0 - 0.25) + 0 + 2*5 + 4*(-10 + 10.25); halved by grad_factor */
  const float expected_d_scale[2] = {-9.5F * REPEATS / 2.0F, 10.75F * REPEATS / 2.0F};
  const float expected_d_zero_point[2] = {-2.5F * REPEATS / 2.0F, -2.0F * REPEATS / 2.0F};
  planck_tensor in = packed(x, PLANCK_F32, 2, shape, 2 * LENGTH);
  planck_tensor scale = packed(scales, PLANCK_F32, 1, channels, 2);
  planck_tensor zero_point = packed(zero_points, PLANCK_S32, 1, channels, 2);
  planck_tensor d_out = packed(dy, PLANCK_F32, 2, shape, 2 * LENGTH);
  planck_tensor d_in = packed(dx, PLANCK_F32, 2, shape, 2 * LENGTH);
  planck_tensor d_scale = packed(d_scales, PLANCK_F32, 1, channels, 2);
  planck_tensor d_zero_point = packed(d_zero_points, PLANCK_F32, 1, channels, 2);
  planck_fake_quantize_descriptor d = {.shape = shape_of(2, shape),
                                       .q_min = -8,
                                       .q_max = 7,
                                       .input_element = PLANCK_F32,
                                       .scope = {.kind = PLANCK_PER_CHANNEL, .axis = 0},
                                       .learnable = 1};
  planck_fake_quantize_backward_args a = {.input = &in,
                                          .scale_tensor = &scale,
                                          .zero_point_tensor = &zero_point,
                                          .d_output = &d_out,
                                          .d_input = &d_in,
                                          .d_scale = &d_scale,
                                          .d_zero_point = &d_zero_point,
                                          .grad_factor = 0.5};
  size_t bytes = 0;
  char* workspace;
  int i;

  for (i = 0; i < 2 * LENGTH; ++i) {
    x[i] = x_rows[i / LENGTH][i % 4];
    dy[i] = dy_rows[i / LENGTH][i % 4];
    expected_dx[i] = dx_rows[i / LENGTH][i % 4];
  }
  CHECK_OK(planck_fake_quantize_backward_workspace_size(&d, NULL, &bytes));
  CHECK(bytes > 0);
  workspace = malloc(bytes);
  CHECK(workspace != NULL);
  if (workspace == NULL) return;
  CHECK_OK(planck_fake_quantize_backward_can_implement(&d, &a, NULL));
  CHECK_STATUS(PLANCK_WORKSPACE_TOO_SMALL, "FakeQuantizePerChannelBackwardPlan,workspace",
               planck_fake_quantize_backward_run(&d, &a, workspace, bytes - 1, NULL));
  CHECK(d_scales[0] == 9.0F && d_zero_points[1] == 9.0F);
  CHECK_OK(planck_fake_quantize_backward_run(&d, &a, workspace, bytes, NULL));
  CHECK_ARRAY(expected_dx, dx);
  CHECK_ARRAY(expected_d_scale, d_scales);
  CHECK_ARRAY(expected_d_zero_point, d_zero_points);

  /* Only one of the three: the others stay as they were. */
  memset(dx, 0, sizeof dx);
  d_scales[0] = d_scales[1] = 9.0F;
  a.d_input = NULL;
  a.d_scale = NULL;
  a.grad_factor = 1.0;
  CHECK_OK(planck_fake_quantize_backward_run(&d, &a, workspace, bytes, NULL));
  CHECK(dx[0] == 0.0F && d_scales[0] == 9.0F);
  CHECK(d_zero_points[0] == -2.5F * REPEATS && d_zero_points[1] == -2.0F * REPEATS);
  free(workspace);

  d.learnable = 0;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "FakeQuantizePerChannelBackwardPlan,d_zero_point is present,learnable",
               planck_fake_quantize_backward_run(&d, &a, NULL, 0, NULL));
  a.d_zero_point = NULL;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "every output is absent,d_input",
               planck_fake_quantize_backward_run(&d, &a, NULL, 0, NULL));
}

/* One good call per channel; each case spoils one thing. */
static void test_granularity_errors(void) {
  static const int64_t shape[] = {2, 3};
  static const int64_t channels[] = {3};
  static const int64_t rows[] = {2};
  float x[6] = {0};
  float scales[3] = {1.0F, 1.0F, 1.0F};
  int32_t zero_points[3] = {0, 0, 0};
  int8_t q[6] = {77, 77, 77, 77, 77, 77};
  planck_tensor in = packed(x, PLANCK_F32, 2, shape, 6);
  planck_tensor scale = packed(scales, PLANCK_F32, 1, channels, 3);
  planck_tensor zero_point = packed(zero_points, PLANCK_S32, 1, channels, 3);
  planck_tensor out = packed(q, PLANCK_S8, 2, shape, 6);
  planck_quantize_descriptor d = {.shape = shape_of(2, shape),
                                  .q_min = -128,
                                  .q_max = 127,
                                  .input_element = PLANCK_F32,
                                  .output_element = PLANCK_S8,
                                  .scope = {.kind = PLANCK_PER_CHANNEL, .axis = 1}};
  planck_quantize_args a = {.input = &in, .scale_tensor = &scale, .zero_point_tensor = &zero_point, .output = &out};
  size_t bytes = 5;

  CHECK_OK(planck_quantize_can_implement(&d, &a, NULL));
  d.scope.kind = 9;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "QuantizePlan,scope.kind = 9", planck_quantize_run(&d, &a, NULL, 0, NULL));
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "scope.kind = 9", planck_quantize_workspace_size(&d, NULL, &bytes));
  CHECK(bytes == 5);
  d.scope.kind = PLANCK_PER_GROUP; /* with a group_size of 0 */
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "QuantizePerGroupPlan,group_size = 0",
               planck_quantize_run(&d, &a, NULL, 0, NULL));
  d.scope.kind = PLANCK_PER_CHANNEL;
  d.scope.axis = 2;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "QuantizePerChannelPlan,axis = 2,[2, 3]",
               planck_quantize_run(&d, &a, NULL, 0, NULL));
  d.scope.axis = -3;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "axis = -3", planck_quantize_run(&d, &a, NULL, 0, NULL));
  d.scope.axis = 1;
  d.q_max = 128;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "q_max = 128,[-128, 127]", planck_quantize_run(&d, &a, NULL, 0, NULL));
  d.q_max = 127;
  d.output_element = PLANCK_S32;
  CHECK_STATUS(PLANCK_UNSUPPORTED, "output_element = s32", planck_quantize_run(&d, &a, NULL, 0, NULL));
  d.output_element = PLANCK_S8;

  a.scale_tensor = NULL;
  a.scale = 1.0;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "QuantizePerChannelPlan,scale is absent,PerChannel",
               planck_quantize_run(&d, &a, NULL, 0, NULL));
  a.scale_tensor = &scale;
  scale.element = PLANCK_F16;
  CHECK_STATUS(PLANCK_UNSUPPORTED, "QuantizePerChannelPlan,scale_element = f16",
               planck_quantize_run(&d, &a, NULL, 0, NULL));
  scale.element = PLANCK_F32;
  scale.shape = rows;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "scale has shape [2],[3]", planck_quantize_run(&d, &a, NULL, 0, NULL));
  scale.shape = channels;
  zero_point.element = PLANCK_S64;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "zero_point,s64,s32", planck_quantize_run(&d, &a, NULL, 0, NULL));
  zero_point.element = PLANCK_S32;

  /* What the tensors hold is looked at by run, not by can_implement. */
  scales[1] = -2.0F;
  scales[2] = NAN;
  CHECK_OK(planck_quantize_can_implement(&d, &a, NULL));
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "QuantizePerChannelPlan,scale[1] = -2,f32",
               planck_quantize_run(&d, &a, NULL, 0, NULL));
  scales[1] = scales[2] = 1.0F;
  zero_points[2] = (1 << 20) + 1;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "QuantizePerChannelPlan,zero_point[2] = 1048577",
               planck_quantize_run(&d, &a, NULL, 0, NULL));
  CHECK(q[0] == 77 && q[5] == 77);
  d.trust_qparams = 1;
  CHECK_OK(planck_quantize_run(&d, &a, NULL, 0, NULL));
}

static void test_dynamic_range(void) {
  static const int64_t shape[] = {2, 3};
  static const int64_t rows[] = {2};
  float x[6] = {-1.0F, 0.5F, 1.54F, 0.0F, 255.0F, 51.0F};
  float scales[2];
  int32_t zero_points[2];
  int32_t sums[2];
  uint8_t q[6];
  const uint8_t expected[6] = {0, 150, 255, 0, 255, 51};
  const int32_t expected_zero_points[2] = {100, 0};
  const int32_t expected_sums[2] = {405, 306};
  planck_tensor in = packed(x, PLANCK_F32, 2, shape, 6);
  planck_tensor scale = packed(scales, PLANCK_F32, 1, rows, 2);
  planck_tensor zero_point = packed(zero_points, PLANCK_S32, 1, rows, 2);
  planck_tensor row_sum = packed(sums, PLANCK_S32, 1, rows, 2);
  planck_tensor out = packed(q, PLANCK_U8, 2, shape, 6);
  planck_dynamic_range_quantize_descriptor d = {.shape = shape_of(2, shape),
                                                .q_min = 0,
                                                .q_max = 255,
                                                .mode = PLANCK_ASYMMETRIC,
                                                .scope = {.kind = PLANCK_PER_TOKEN},
                                                .input_element = PLANCK_F32,
                                                .output_element = PLANCK_U8,
                                                .zero_in_range = 1};
  planck_dynamic_range_quantize_args a = {
      .input = &in, .scale_out = &scale, .output = &out, .zero_point_out = &zero_point, .row_sum = &row_sum};
  size_t bytes = 1;

  CHECK_OK(planck_dynamic_range_quantize_workspace_size(&d, NULL, &bytes));
  CHECK(bytes == 0);
  CHECK_OK(planck_dynamic_range_quantize_can_implement(&d, &a, NULL));
  CHECK_OK(planck_dynamic_range_quantize_run(&d, &a, NULL, 0, NULL));
  CHECK_ARRAY(expected, q);
  CHECK_ARRAY(expected_zero_points, zero_points);
  CHECK_ARRAY(expected_sums, sums);
  CHECK(scales[0] == (1.54F + 1.0F) / 255.0F && scales[1] == 1.0F);

  a.zero_point_out = NULL;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "DynamicRangeQuantizePlan,zero_point_out,Asymmetric",
               planck_dynamic_range_quantize_run(&d, &a, NULL, 0, NULL));
  a.zero_point_out = &zero_point;
  d.mode = 2;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "DynamicRangeQuantizePlan,mode = 2",
               planck_dynamic_range_quantize_run(&d, &a, NULL, 0, NULL));
}

/* Codes that are floats: limited or, if asked for, overflowing; there and back again. */
static void test_float_codes(void) {
  static const int64_t shape[] = {6};
  float x[6] = {1.0F, -0.3F, 1000.0F, 0.0F, -INFINITY, 34.0F};
  float y[6];
  uint8_t q[6];
  const uint8_t saturated[6] = {0x30, 0xA2, 0x7E, 0x00, 0xFE, 0x58};
  const uint8_t overflowed[6] = {0x30, 0xA2, 0x7F, 0x00, 0xFF, 0x58};
  const float restored[6] = {1.0F, -0.3125F, 896.0F, 0.0F, -896.0F, 32.0F};
  planck_tensor in = packed(x, PLANCK_F32, 1, shape, 6);
  planck_tensor codes = packed(q, PLANCK_F8E4M3, 1, shape, 6);
  planck_tensor out = packed(y, PLANCK_F32, 1, shape, 6);
  planck_quantize_descriptor d = {.shape = shape_of(1, shape),
                                  .q_min = -448,
                                  .q_max = 448,
                                  .input_element = PLANCK_F32,
                                  .output_element = PLANCK_F8E4M3};
  planck_dequantize_descriptor back = {
      .shape = shape_of(1, shape), .input_element = PLANCK_F8E4M3, .output_element = PLANCK_F32};
  planck_quantize_args a = {.input = &in, .scale = 2.0, .output = &codes};
  planck_dequantize_args b = {.input = &codes, .scale = 2.0, .output = &out};

  CHECK_OK(planck_quantize_run(&d, &a, NULL, 0, NULL));
  CHECK_ARRAY(saturated, q);
  CHECK_OK(planck_dequantize_run(&back, &b, NULL, 0, NULL));
  CHECK_ARRAY(restored, y);
  d.unsaturated = 1;
  CHECK_OK(planck_quantize_run(&d, &a, NULL, 0, NULL));
  CHECK_ARRAY(overflowed, q);

  a.zero_point = 1;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "zero_point = 1 must be 0,f8e4m3", planck_quantize_run(&d, &a, NULL, 0, NULL));
  a.zero_point = 0;
  d.q_max = 440;
  CHECK_STATUS(PLANCK_INVALID_PROBLEM, "q_max = 440 is no number of f8e4m3",
               planck_quantize_run(&d, &a, NULL, 0, NULL));
}

void test_granularities(void) {
  test_quantize_per_tensor();
  test_quantize_per_channel();
  test_dequantize_per_group();
  test_fake_quantize_per_token_with_bf16_scales();
  test_learnable();
  test_granularity_errors();
  test_dynamic_range();
  test_float_codes();
}
