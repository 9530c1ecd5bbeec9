#include "op/algorithm/epilogue.h"

#include "kernel/select.h"

namespace quern {

Steps steps_before_residual(const Request& request) {
  Steps steps = steps_of(request.out);
  if (has_residual && request.ins.size() == 2 && request.options.addend_scale != 0) {
    steps.scale = request.options.addend_scale;
    steps.zero = request.options.addend_zero_point;
  }
  return steps;
}

Epilogue::Epilogue(const Request& request)
    : type_(type_without_weights(request.out.type)),
      clamp_{request.options.residual_min, request.options.residual_max} {
  if (!has_residual || request.ins.size() < 2) return;
  add_ = select(binary_rows(), type_, nullptr, [](const BinaryRow& row) { return row.kind == BinaryKind::add; });
  if (has_integers && type_ == KernelType::qs8) {
    bytes_ = numbers_of_sum(steps_before_residual(request), steps_of(request.ins[1]), steps_of(request.out), clamp_);
  }
}

}  // namespace quern
