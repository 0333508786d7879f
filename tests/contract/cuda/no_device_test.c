/* planck::cuda through the C ABI where there is no GPU: BackendFailure with CUDA's own code, nothing written, no crash.
 * Where there is one, the same call must go through; its tensors are then no device memory, so only workspace_size is
 * asked for.
 */
#include <stdio.h>
#include <string.h>

#include "planck/planck.h"

int main(void) {
  static const int64_t extents[] = {4};
  planck_stream cuda = {PLANCK_CUDA, 0, NULL, NULL, 0, NULL};
  float x[4] = {1.0F, 2.0F, 3.0F, 4.0F};
  float y[4] = {77.0F, 77.0F, 77.0F, 77.0F};
  const planck_tensor in = {.data = x, .capacity = 4, .element = PLANCK_F32, .rank = 1, .shape = extents};
  const planck_tensor out = {.data = y, .capacity = 4, .element = PLANCK_F32, .rank = 1, .shape = extents};
  const planck_fake_quantize_descriptor what = {
      .shape = {1, extents}, .q_min = -8, .q_max = 7, .input_element = PLANCK_F32};
  const planck_fake_quantize_args args = {.input = &in, .scale = 1.0, .output = &out};
  size_t bytes = 123;
  const planck_status asked = planck_fake_quantize_workspace_size(&what, &cuda, &bytes);
  if (asked == PLANCK_OK) {
    printf("a device is there\n");
    return bytes == 0 ? 0 : 1;
  }
  printf("%s\n", planck_last_error_message());
  if (asked != PLANCK_BACKEND_FAILURE || planck_last_backend_code() == 0 || bytes != 123) return 2;
  if (planck_fake_quantize_run(&what, &args, NULL, 0, &cuda) != PLANCK_BACKEND_FAILURE) return 3;
  if (planck_last_backend_code() == 0 || strstr(planck_last_error_message(), "CUDA error") == NULL) return 4;
  if (planck_fake_quantize_run(&what, &args, NULL, 0, NULL) != PLANCK_OK || y[3] != 4.0F) return 5;
  return 0;
}
