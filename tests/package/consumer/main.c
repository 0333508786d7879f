/* The same from C, with one number. */
#include <planck/planck.h>

int main(void) {
  static const int64_t shape[] = {1};
  float x = 0.8F;
  float y = 0.0F;
  planck_tensor in = {&x, PLANCK_F32, 1, shape, NULL, 0, 1};
  planck_tensor out = {&y, PLANCK_F32, 1, shape, NULL, 0, 1};
  planck_fake_quantize_descriptor d = {.shape = {1, shape}, .q_min = -8, .q_max = 7, .input_element = PLANCK_F32};
  planck_fake_quantize_args a = {.input = &in, .scale = 0.5, .output = &out};
  return planck_fake_quantize_run(&d, &a, NULL, 0, NULL) == PLANCK_OK && y == 1.0F ? 0 : 1;
}
