// Spectra of signals. Our graphs have no complex numbers: a complex tensor of a source is one of floats there, which has
// real and imaginary parts as a last dimension (`Value::is_complex`). The functions here make and read such tensors, and
// importers refuse whatever else reads one.
#pragma once

#include "convert/common/kinds.h"

namespace quern::convert {

bool any_complex(const std::vector<const Value*>& values);

// The rows that an importer's tables have for one operator, null where they have none.
template <class Row>
struct OperatorRows {
  const Row* first;    // of real numbers
  const Row* general;  // of real numbers, if the first row cannot express the node
  const Row* of_complex;

  bool empty() const { return first == nullptr && general == nullptr && of_complex == nullptr; }

  // Calls `import_by` with the row for these inputs.
  template <class Import>
  void import(const std::vector<const Value*>& inputs, const Import& import_by) const {
    if (any_complex(inputs)) {
      if (of_complex == nullptr) throw Unsupported{"of complex numbers"};
      return import_by(*of_complex);
    }
    if (first == nullptr && general == nullptr) throw Unsupported{"of real numbers"};
    if (first != nullptr) {
      try {
        return import_by(*first);
      } catch (const Unsupported&) {
        if (general == nullptr) throw;
      }
    }
    import_by(*general);
  }
};

// Transforms real numbers along their last dimensions, as many as there are lengths, to which these are cut or padded.
// Of the last one the result has the first half.
Value spectrum_of(const SourceNode& node, const Value& x, const std::vector<int64_t>& lengths);

// The real parts (0) or the imaginary ones (1), and the absolute values, of complex numbers.
Value part_of_complex(const SourceNode& node, const Value& x, int64_t part);
Value absolute_of_complex(const SourceNode& node, const Value& x);

// Complex numbers in other shapes.
Value complex_reshaped(const SourceNode& node, const Value& x, const Integers& shape);
Value complex_with_axis(const SourceNode& node, const Value& x, int64_t axis);
Value complex_squeezed(const SourceNode& node, const Value& x, std::vector<int64_t> axes);  // none: all that can be

}  // namespace quern::convert
