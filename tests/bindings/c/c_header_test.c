/* A C11 program that uses every function of planck.h, the way a caller with nothing but a C compiler would.
 *
 * This file has main, the checks' bookkeeping and the quantise family per tensor; c_quantize.c has its other
 * granularities, c_scan.c the scans, c_binary_param.c the binary family and streams, c_errors.c every status code and
 * the messages. Prints "N passed, M failed".
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

static int passed = 0;
static int failed = 0;

void check(int ok, const char* file, int line, const char* text) {
  if (ok) {
    ++passed;
    return;
  }
  ++failed;
  printf("%s:%d: failed: %s\n", file, line, text);
}

static int contains_words(const char* message, const char* words) {
  char list[256];
  char* word;
  snprintf(list, sizeof list, "%s", words);
  for (word = strtok(list, ","); word != NULL; word = strtok(NULL, ",")) {
    if (strstr(message, word) == NULL) return 0;
  }
  return 1;
}

void check_status(planck_status expected, planck_status got, const char* words, const char* file, int line,
                  const char* text) {
  const char* message = planck_last_error_message();
  const int ok = got == expected && (expected == PLANCK_OK || contains_words(message, words));
  check(ok, file, line, text);
  if (!ok) printf("  status %d, expected %d with the words \"%s\"; message: %s\n", got, expected, words, message);
}

void check_bytes(const void* expected, const void* got, size_t bytes, const char* file, int line, const char* text) {
  const unsigned char* e = expected;
  const unsigned char* g = got;
  size_t i = 0;
  while (i < bytes && e[i] == g[i]) ++i;
  check(i == bytes, file, line, text);
  if (i != bytes) printf("  byte %zu is 0x%02x, expected 0x%02x\n", i, g[i], e[i]);
}

planck_tensor packed(void* data, int32_t element, int32_t rank, const int64_t* shape, int64_t capacity) {
  planck_tensor t = {data, element, rank, shape, NULL, 0, capacity};
  return t;
}

planck_shape shape_of(int32_t rank, const int64_t* extents) {
  planck_shape s = {rank, extents};
  return s;
}

static void test_fake_quantize(void) {
  static const int64_t shape[] = {2, 4};
  float x[8] = {0.24F, 0.25F, 0.75F, -0.3F, 100.0F, -100.0F, -0.1F, 1.25F};
  const float expected[8] = {0.0F, 0.0F, 1.0F, -0.5F, 3.5F, -4.0F, 0.0F, 1.0F};
  float y[8];
  planck_tensor in = packed(x, PLANCK_F32, 2, shape, 8);
  planck_tensor out = packed(y, PLANCK_F32, 2, shape, 8);
  planck_fake_quantize_descriptor d = {
      .shape = shape_of(2, shape), .q_min = -8, .q_max = 7, .input_element = PLANCK_F32};
  planck_fake_quantize_args a = {.input = &in, .scale = 0.5, .output = &out};
  size_t bytes = 1;

  CHECK_OK(planck_fake_quantize_workspace_size(&d, NULL, &bytes));
  CHECK(bytes == 0);
  CHECK_OK(planck_fake_quantize_can_implement(&d, &a, NULL));
  CHECK_OK(planck_fake_quantize_run(&d, &a, NULL, 0, NULL));
  CHECK_ARRAY(expected, y);

  /* 35.25f / 0.3f stays below 117.5, and 35.25f * (1 / 0.3f) is rounded up to it: a tie, to 118. */
  {
    static const int64_t one[] = {1};
    const float scale = 0.3F;
    float number = 35.25F;
    float divided = 0.0F;
    float multiplied = 0.0F;
    planck_tensor number_in = packed(&number, PLANCK_F32, 1, one, 1);
    planck_tensor number_out = packed(&divided, PLANCK_F32, 1, one, 1);
    planck_fake_quantize_descriptor form = {
        .shape = shape_of(1, one), .q_min = -128, .q_max = 127, .input_element = PLANCK_F32};
    planck_fake_quantize_args args = {.input = &number_in, .scale = 0.3, .output = &number_out};
    CHECK_OK(planck_fake_quantize_run(&form, &args, NULL, 0, NULL));
    form.scale_form = PLANCK_RECIPROCAL;
    number_out.data = &multiplied;
    CHECK_OK(planck_fake_quantize_run(&form, &args, NULL, 0, NULL));
    CHECK(divided == scale * 117.0F);
    CHECK(multiplied == scale * 118.0F);
  }
}

static void test_fake_quantize_backward(void) {
  static const int64_t shape[] = {6};
  float x[6] = {3.5F, 3.76F, -4.0F, -4.26F, 0.0F, 0.0F};
  const float dy[6] = {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F};
  const float expected[6] = {1.0F, 0.0F, 3.0F, 0.0F, 5.0F, 0.0F};
  float dx[6];
  float dy_in[6];
  planck_tensor in = packed(x, PLANCK_F32, 1, shape, 6);
  planck_tensor d_out = packed(dy_in, PLANCK_F32, 1, shape, 6);
  planck_tensor d_in = packed(dx, PLANCK_F32, 1, shape, 6);
  planck_fake_quantize_backward_descriptor d = {
      .shape = shape_of(1, shape), .q_min = -8, .q_max = 7, .input_element = PLANCK_F32};
  planck_fake_quantize_backward_args a = {.input = &in, .scale = 0.5, .d_output = &d_out, .d_input = &d_in};
  size_t bytes = 1;

  memcpy(dy_in, dy, sizeof dy);
  x[5] = NAN;
  CHECK_OK(planck_fake_quantize_backward_workspace_size(&d, NULL, &bytes));
  CHECK(bytes == 0);
  CHECK_OK(planck_fake_quantize_backward_can_implement(&d, &a, NULL));
  CHECK_OK(planck_fake_quantize_backward_run(&d, &a, NULL, 0, NULL));
  CHECK_ARRAY(expected, dx);

  /* In place: the gradient over dy. */
  a.d_input = &d_out;
  CHECK_OK(planck_fake_quantize_backward_run(&d, &a, NULL, 0, NULL));
  CHECK_ARRAY(expected, dy_in);
}

/* A transposed, reversed input and an output with gaps; then the same reversed view as DLPack gives it, with
 * the data pointer at the first element, memory on both sides of it and a length that nobody said. */
static void test_strided_views(void) {
  static const int64_t shape[] = {2, 3};
  static const int64_t in_strides[] = {-1, 2};
  static const int64_t out_strides[] = {6, 2};
  float x[6] = {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F};
  float y[12];
  const float expected[12] = {2.0F, 9.0F, 4.0F, 9.0F, 6.0F, 9.0F, 1.0F, 9.0F, 3.0F, 9.0F, 5.0F, 9.0F};
  planck_tensor in = {x, PLANCK_F32, 2, shape, in_strides, 1, 6};
  planck_tensor out = {y, PLANCK_F32, 2, shape, out_strides, 0, 12};
  planck_fake_quantize_descriptor d = {
      .shape = shape_of(2, shape), .q_min = -128, .q_max = 127, .input_element = PLANCK_F32};
  planck_fake_quantize_args a = {.input = &in, .scale = 1.0, .output = &out};
  int i;

  for (i = 0; i < 12; ++i) y[i] = 9.0F;
  CHECK_OK(planck_fake_quantize_run(&d, &a, NULL, 0, NULL));
  CHECK_ARRAY(expected, y);

  for (i = 0; i < 12; ++i) y[i] = 9.0F;
  in.data = x + 1;
  in.offset = 0;
  in.capacity = PLANCK_UNKNOWN_CAPACITY;
  CHECK_OK(planck_fake_quantize_run(&d, &a, NULL, 0, NULL));
  CHECK_ARRAY(expected, y);
  in.capacity = 5; /* now the length is known, and element -1 lies outside */
  CHECK_STATUS(PLANCK_BUFFER_TOO_SMALL, "FakeQuantizePlan,input,-1 to 4,of 5",
               planck_fake_quantize_run(&d, &a, NULL, 0, NULL));
}

static void test_dequantize(void) {
  static const int64_t shape[] = {4};
  int8_t s[4] = {-128, -1, 0, 127};
  uint8_t u[4] = {0, 1, 128, 255};
  double y64[4];
  uint16_t y16[4];
  const double expected_s8[4] = {-34.5, -2.75, -2.5, 29.25};
  const uint16_t expected_u8[4] = {0xC300, 0xC2FE, 0x0000, 0x42FE}; /* bf16 -128 -127 0 127 */
  planck_tensor in = packed(s, PLANCK_S8, 1, shape, 4);
  planck_tensor out = packed(y64, PLANCK_F64, 1, shape, 4);
  planck_dequantize_descriptor d = {
      .shape = shape_of(1, shape), .input_element = PLANCK_S8, .output_element = PLANCK_F64};
  planck_dequantize_args a = {.input = &in, .scale = 0.25, .zero_point = 10, .output = &out};
  size_t bytes = 1;

  CHECK_OK(planck_dequantize_workspace_size(&d, NULL, &bytes));
  CHECK(bytes == 0);
  CHECK_OK(planck_dequantize_can_implement(&d, &a, NULL));
  CHECK_OK(planck_dequantize_run(&d, &a, NULL, 0, NULL));
  CHECK_ARRAY(expected_s8, y64);

  in = packed(u, PLANCK_U8, 1, shape, 4);
  out = packed(y16, PLANCK_BF16, 1, shape, 4);
  d.input_element = PLANCK_U8;
  d.output_element = PLANCK_BF16;
  a.scale = 1.0;
  a.zero_point = 128;
  CHECK_OK(planck_dequantize_run(&d, &a, NULL, 0, NULL));
  CHECK_ARRAY(expected_u8, y16);
}

static void test_dequantize_backward(void) {
  static const int64_t shape[] = {3};
  uint16_t dy[3] = {0x3C00, 0xC000, 0x0001}; /* f16 1, -2, the smallest subnormal */
  uint16_t dq[3];
  const uint16_t expected[3] = {0x4200, 0xC600, 0x0003}; /* times 3 */
  planck_tensor d_out = packed(dy, PLANCK_F16, 1, shape, 3);
  planck_tensor d_in = packed(dq, PLANCK_F16, 1, shape, 3);
  planck_dequantize_backward_descriptor d = {
      .shape = shape_of(1, shape), .input_element = PLANCK_S8, .output_element = PLANCK_F16};
  planck_dequantize_backward_args a = {.scale = 3.0, .d_output = &d_out, .d_input = &d_in};
  size_t bytes = 1;

  CHECK_OK(planck_dequantize_backward_workspace_size(&d, NULL, &bytes));
  CHECK(bytes == 0);
  CHECK_OK(planck_dequantize_backward_can_implement(&d, &a, NULL));
  CHECK_OK(planck_dequantize_backward_run(&d, &a, NULL, 0, NULL));
  CHECK_ARRAY(expected, dq);
}

void test_quantize(void) {
  test_fake_quantize();
  test_fake_quantize_backward();
  test_strided_views();
  test_dequantize();
  test_dequantize_backward();
}

int main(void) {
  CHECK(strcmp(planck_last_error_message(), "") == 0);
  CHECK(planck_last_backend_code() == 0);
  CHECK(planck_last_needed() == 0 && planck_last_got() == 0);
  CHECK(strcmp(planck_version(), PLANCK_EXPECTED_VERSION) == 0);
  test_quantize();
  test_granularities();
  test_scans();
  test_binary_param();
  test_streams();
  test_errors();
  test_null_pointers();
  printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
