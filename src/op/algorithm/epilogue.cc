#include "op/algorithm/epilogue.h"

#include "kernel/select.h"

namespace quern {

Epilogue::Epilogue(const Request& request) : clamp_{request.options.residual_min, request.options.residual_max} {
  if (!has_residual || request.ins.size() < 2) return;
  add_ =
      select(binary_rows(), KernelType::f32, nullptr, [](const BinaryRow& row) { return row.kind == BinaryKind::add; });
}

}  // namespace quern
