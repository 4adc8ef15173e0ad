// One element of a run-time type, by value: bounds, fill values and divisors that kernels take by
// address.
#pragma once

#include "kernels/elementwise/cast.h"

namespace parallax::ops {

struct Scalar {
  alignas(8) unsigned char bytes[8] = {};
};

// `value` converted to `dtype` by Cast's rules.
inline Scalar ScalarOf(DType dtype, double value) {
  Scalar s;
  kernels::CastSerial(DType::kF64, dtype, &value, s.bytes, 1);
  return s;
}

}  // namespace parallax::ops
