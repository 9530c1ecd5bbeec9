#include "tool/quantization.h"

#include "graph/file/format.h"
#include "graph/file/sparse.h"
#include "tool/progress.h"

namespace quern {
namespace {

void observe(const qn_session* session, Vector<Range>* ranges) {
  for (size_t i = 0; i < ranges->size(); ++i) {
    qn_tensor tensor;
    const void* data = nullptr;
    check(qn_session_output_tensor(session, i, &tensor));
    check(qn_session_output(session, i, &data));
    (*ranges)[i].add(static_cast<const float*>(data), qn_tensor_bytes(&tensor) / sizeof(float));
  }
}

}  // namespace

Vector<QuantizedLayer> quantize_model(Graph& graph, size_t samples, const Sample& sample, size_t threads) {
  check(make_dense(graph));
  const Vector<int> tensors = tensors_to_observe(graph);
  Vector<Range> ranges(tensors.size());
  if (!tensors.empty()) {
    qn_model* made = nullptr;
    check(make_model(observed(graph, tensors), nullptr, &made));
    const ModelPtr model(made);
    const SessionPtr session = make_session(model.get(), {threads, false});
    Progress progress("samples", samples);
    for (size_t i = 0; i < samples; ++i, progress.step()) {
      run_session(session.get(), sample(model.get(), session.get(), i));
      observe(session.get(), &ranges);
    }
  }
  Vector<QuantizedLayer> layers;
  check(quantize(graph, ranges, &layers));
  return layers;
}

}  // namespace quern
