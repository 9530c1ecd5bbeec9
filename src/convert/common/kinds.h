// Operators as nodes of libquern-extra's kinds, which compute with all types and shapes. Functions take values, known
// integers among them, and return what may be an input of the next: they are small expressions.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "convert/common/source_node.h"

namespace quern::convert {

// A name as an argument of a template.
template <size_t n>
struct Name {
  char text[n];
  constexpr Name(const char (&from)[n]) { std::copy_n(from, n, text); }  // NOLINT(google-explicit-constructor)
};

// Adds a node of a kind. Its output has the type of the first input, unless `type` says otherwise. An empty value stands
// for an absent input.
Value make(const SourceNode& node, const char* kind, const Values& inputs, Parameters parameters = {},
           std::optional<ElementType> type = std::nullopt);
// The same with several outputs.
Values make_all(const SourceNode& node, const char* kind, const Values& inputs, Parameters parameters,
                const std::vector<ElementType>& types);

// A list, or one number, of integers.
Value integer_list(const std::vector<int64_t>& values, ElementType type = ElementType::i64);
Value integer_number(int64_t value, ElementType type = ElementType::i64);
// One number of the type.
Value number_of(const SourceNode& node, float value, ElementType type);

Value cast_to(const SourceNode& node, const Value& x, ElementType type);
Value permuted(const SourceNode& node, const Value& x, const std::vector<int64_t>& order);
Value reshaped(const SourceNode& node, const Value& x, const std::vector<int64_t>& shape);
Value with_axis(const SourceNode& node, const Value& x, int64_t axis);
Value sliced(const SourceNode& node, const Value& x, const std::vector<int64_t>& begin, const std::vector<int64_t>& end,
             const std::vector<int64_t>& axes, const std::vector<int64_t>& steps = {});
Value joined(const SourceNode& node, const Values& parts, int64_t axis);
// Sizes of the shape that are open are followed.
Value filled(const SourceNode& node, const Value& shape, const Value& number);
Value shape_of(const SourceNode& node, const Value& x);
// Numbers from `start` on, up to before `limit`. Bounds that are open sizes are followed.
Value range_of(const SourceNode& node, const Value& start, const Value& limit, const Value& step);

// The remainder and the quotient of a division that rounds down.
Value floor_mod(const SourceNode& node, const Value& a, const Value& b);
Value floor_div(const SourceNode& node, const Value& a, const Value& b);
// The angle of points (x, y), by its quadrant.
Value atan2(const SourceNode& node, const Value& y, const Value& x);
// Exchanges the last two dimensions if `transposes` is set.
Value transposed_if(const SourceNode& node, bool transposes, const Value& x);
// Zeros of a shape, to which updates are added at the places that tuples of indices name.
Value scattered(const SourceNode& node, const Value& indices, const Value& updates, const Value& shape);
// Rows of `off` with `on` at the place of the index. An index that is not a class, a negative one too, gives a row that
// is off.
Value one_hot(const SourceNode& node, const Value& indices, const Value& depth, const Value& on, const Value& off,
              int64_t axis);
// Elements of an axis at the indices, behind `batch` dimensions that both have in common.
Value gathered(const SourceNode& node, const Value& x, const Value& indices, int64_t axis, int64_t batch);

// Takes size[d] elements from begin[d] on of each dimension d; -1 takes all that follow.
Value sliced_sizes(const SourceNode& node, const Value& x, const std::vector<int64_t>& begin,
                   const std::vector<int64_t>& size);
Value reversed(const SourceNode& node, const Value& x, const std::vector<int64_t>& axes);
// Pads by pairs, before and after, for each dimension, which input `pads` holds. Modes are those of the kind pad_by. An
// empty `filler` is 0.
enum class PadMode : int64_t { constant = 0, reflect = 1, symmetric = 4 };
Value padded(const SourceNode& node, const Value& x, size_t pads, PadMode mode, const Value& filler = {});
// Each different element once, as they first occur, and which of them each element is, as 64-bit integers.
Values unique_elements(const SourceNode& node, const Value& x);
// One row of indices for each element that is not 0.
Value places_of_nonzero(const SourceNode& node, const Value& x);
// Chooses elements. A condition that is a list chooses among the slices of the first dimension.
Value selected(const SourceNode& node, Value condition, const Value& yes, const Value& no);

// The number of dimensions, which the source must fix.
size_t rank_of(const SourceNode& node, const Value& x);
// What is known of the shape, see Builder::expect_shape.
std::optional<Shape> expected_shape(const Builder& builder, const Value& x);
Shape shape_at_import(const SourceNode& node, const Value& x);

}  // namespace quern::convert
