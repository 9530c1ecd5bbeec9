#include "graph/coder/encode_small.h"

#include "graph/coder/small_coder.h"

namespace quern {

Vector<unsigned char> encode_small(std::span<const unsigned char> bytes, size_t stride) {
  SmallModel model(bytes.data(), stride);
  Interval interval;
  Vector<unsigned char> stream;
  const auto write = [&](uint32_t code) { stream.push_back(static_cast<unsigned char>(code >> 24)); };
  for (const unsigned char byte : bytes) {
    unsigned bit;
    do {
      bit = model.decision(byte);
      interval.narrow(bit, interval.middle(model.predict()));
      for (; interval.settled(); interval.shift()) write(interval.low);
    } while (!model.update(bit));
    model.next();
  }
  uint32_t code;
  for (unsigned left = interval.end(&code); left > 0; --left, code <<= 8) write(code);
  return stream;
}

}  // namespace quern
