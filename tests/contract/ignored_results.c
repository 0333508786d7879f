/* As ignored_results.cpp, in C. */
#include "planck/planck.h"

void ignore(const planck_scan_descriptor* descriptor, const planck_scan_args* args, size_t* bytes);
void ignore(const planck_scan_descriptor* descriptor, const planck_scan_args* args, size_t* bytes) {
#if CASE == 0
  if (planck_scan_run(descriptor, args, NULL, 0, NULL) != PLANCK_OK) *bytes = 0;
#elif CASE == 1
  planck_scan_run(descriptor, args, NULL, 0, NULL);
#elif CASE == 2
  planck_scan_can_implement(descriptor, args, NULL);
#elif CASE == 3
  planck_scan_workspace_size(descriptor, NULL, bytes);
#endif
}
