// Walks through the FlatBuffer by the list of its tables' fields. The verifier that flatc generates accepts the same
// bytes, but it is several times larger: it has a few calls for each field of each table.
#include "graph/file/description.h"

#include <cstring>

#include "graph/file/model_generated.h"

namespace quern {
namespace {

// What a byte of format::table_fields says: the kind of the field in its upper half, the argument in the lower one.
enum FieldKind : unsigned { end, scalar, words, string, vector, strings, table, tables };

class DescriptionVerifier {
 public:
  // A table takes at least 8 bytes: its offset in a vector, and the offset to its layout. If a file has more tables
  // than its size allows, it refers to the same table many times.
  DescriptionVerifier(const uint8_t* bytes, size_t size)
      : bytes_(bytes),
        elements_(size / sizeof(flatbuffers::uoffset_t)),
        verifier_(bytes, size, max_depth, static_cast<flatbuffers::uoffset_t>(size / 8)) {}

  bool verify() { return verify_field(bytes_, table << 4 | format::model_table); }

 private:
  static constexpr flatbuffers::uoffset_t max_depth = 8;

  bool verify_field(const uint8_t* at, unsigned field);
  bool verify_table(const uint8_t* at, unsigned index);

  const uint8_t* bytes_;
  size_t elements_;  // elements of lists of strings and tables that may still come: fewer, if lists are not shared
  flatbuffers::Verifier verifier_;
};

bool DescriptionVerifier::verify_field(const uint8_t* at, unsigned field) {
  const unsigned kind = field >> 4, argument = field & 15;
  if (kind == scalar) return verifier_.VerifyFieldStruct(at, 0, argument, argument);
  if (kind == words) return verifier_.VerifyFieldStruct(at, 0, size_t{4} * argument, 4);
  const flatbuffers::uoffset_t offset = verifier_.VerifyOffset(at, 0);
  if (offset == 0) return false;
  at += offset;
  if (kind == table) return verify_table(at, argument);
  if (kind == string) return verifier_.VerifyString(reinterpret_cast<const flatbuffers::String*>(at));
  if (kind == vector) return verifier_.VerifyVectorOrString(at, argument);
  if (!verifier_.VerifyVectorOrString(at, sizeof offset)) return false;
  const unsigned element = (kind == tables ? table : string) << 4 | argument;
  for (auto count = flatbuffers::ReadScalar<flatbuffers::uoffset_t>(at); count > 0; --count) {
    at += sizeof offset;
    if (elements_-- == 0 || !verify_field(at, element)) return false;
  }
  return true;
}

bool DescriptionVerifier::verify_table(const uint8_t* at, unsigned index) {
  if (!verifier_.VerifyTableStart(at)) return false;
  const unsigned char* field = format::table_fields;
  for (; index > 0; --index) field += std::strlen(reinterpret_cast<const char*>(field)) + 1;
  // The layout of a table: its own size, the table's size, and where each field lies; 0 stands for an absent field.
  const uint8_t* const layout = at - flatbuffers::ReadScalar<flatbuffers::soffset_t>(at);
  const auto size = flatbuffers::ReadScalar<flatbuffers::voffset_t>(layout);
  for (size_t place = 4; place < size && *field != end; place += sizeof size, ++field) {
    const auto offset = flatbuffers::ReadScalar<flatbuffers::voffset_t>(layout + place);
    if (offset != 0 && !verify_field(at + offset, *field)) return false;
  }
  return verifier_.EndTable();
}

}  // namespace

bool verify_description(const uint8_t* bytes, size_t size) { return DescriptionVerifier(bytes, size).verify(); }

}  // namespace quern
