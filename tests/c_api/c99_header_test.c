/* planck.h alone, as the first include and in C99 without extensions: it needs nothing before it. */
#include "planck/planck.h"

int main(void) {
  planck_shape shape = {0, NULL};
  planck_fake_quantize_descriptor d = {{0, NULL}, 0, 255, PLANCK_F64, PLANCK_RECIPROCAL, 0};
  size_t bytes = 1;
  d.shape = shape;
  return planck_fake_quantize_workspace_size(&d, NULL, &bytes) == PLANCK_OK && bytes == 0 ? 0 : 1;
}
