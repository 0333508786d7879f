// Each CASE forgets to look at one result; ignored_results_test.cmake expects the compiler to say so, and CASE 0 to
// compile.
#include "planck/planck.h"
#include "planck/planck.hpp"

using namespace planck;

Result<int> number();
Error error();

void ignore(const Stream& stream, const ScanPlan<float>& plan, const ScanArgs& args, const Result<void>& result,
            const planck_scan_descriptor* descriptor, const planck_scan_args* c_args, size_t* bytes) {
#if CASE == 0
  if (!plan.run(stream, args)) return;
  static_cast<void>(planck_scan_run(descriptor, c_args, nullptr, 0, nullptr));
#elif CASE == 1
  ScanPlan<float>::select(stream, {});
#elif CASE == 2
  plan.can_implement(args);
#elif CASE == 3
  plan.run(stream, Workspace::none(), args);
#elif CASE == 4
  plan.run(stream, args);
#elif CASE == 5
  number();  // a Result of any function
#elif CASE == 6
  error();
#elif CASE == 7
  planck_scan_run(descriptor, c_args, nullptr, 0, nullptr);
#elif CASE == 8
  planck_scan_can_implement(descriptor, c_args, nullptr);
#elif CASE == 9
  planck_scan_workspace_size(descriptor, nullptr, bytes);
#endif
  static_cast<void>(result), static_cast<void>(bytes);
}
