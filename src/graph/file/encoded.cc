#include "graph/file/encoded.h"

namespace quern {

qn_status ConstantRows::read(size_t first, size_t count, const void** data) {
  if (constant_.encoded == nullptr) {
    *data = static_cast<const char*>(constant_.data) + first * row_bytes_;
    return QN_OK;
  }
  strip_.resize(count * row_bytes_);
  *data = strip_.data();
  return constant_.encoded->decode(first, count, strip_.data());
}

size_t traffic_of(const Constant& constant) {
  return constant.encoded == nullptr ? constant.bytes : constant.encoded->traffic();
}

qn_status make_dense(Graph& graph) {
  for (Constant& constant : graph.constants) {
    if (constant.encoded == nullptr) continue;
    auto buffer = make_shared<Buffer>(constant.bytes);
    QN_TRY(constant.encoded->decode(0, constant.encoded->rows(), buffer->data()));
    const void* data = buffer->data();
    constant = {std::move(buffer), data, constant.bytes};
  }
  return QN_OK;
}

}  // namespace quern
