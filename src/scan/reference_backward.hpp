// The half of the scans' reference that goes from the axis' end to its start.
#pragma once

#include "scan/job.hpp"

namespace planck::reference {

/// Every kind but Cumsum, whose gradient is a forward job.
void run_scan_backward(const scan::ScanJob& job);

}  // namespace planck::reference
