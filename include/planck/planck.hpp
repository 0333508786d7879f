// Planck: plan-based tensor kernels with the same bits everywhere. This header is all of the C++ API.
#pragma once

#include "planck/dynamic_range.hpp"
#include "planck/element.hpp"
#include "planck/elementwise.hpp"
#include "planck/error.hpp"
#include "planck/granularity.hpp"
#include "planck/plan.hpp"
#include "planck/quantize.hpp"
#include "planck/quantize_granularities.hpp"
#include "planck/scan.hpp"
#include "planck/stream.hpp"
#include "planck/tensor.hpp"
#include "planck/version.hpp"
#include "planck/workspace.hpp"
