/* planck.h alone, as the first include and in C99 without extensions: it needs nothing before it. */
#include "planck/planck.h"

int main(void) {
  planck_shape shape = {0, NULL};
  planck_fake_quantize_descriptor d = {
      .shape = {0, NULL}, .q_max = 255, .input_element = PLANCK_F64, .scale_form = PLANCK_RECIPROCAL};
  size_t bytes = 1;
  d.shape = shape;
  return planck_fake_quantize_workspace_size(&d, NULL, &bytes) == PLANCK_OK && bytes == 0 ? 0 : 1;
}
