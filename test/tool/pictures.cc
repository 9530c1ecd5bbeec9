#include "pictures.h"

#include <cstdio>
#include <cstdlib>
// jpeglib.h needs stdio first
#include <jpeglib.h>
#include <png.h>
#include <zlib.h>

namespace quern {

std::string make_png(size_t width, size_t height, const PngKind& kind,
                     const std::function<unsigned(size_t, size_t, size_t)>& sample) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &file,
      [](png_structp p, png_bytep data, size_t size) {
        static_cast<std::string*>(png_get_io_ptr(p))->append(reinterpret_cast<char*>(data), size);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), kind.bit_depth,
               kind.color_type, kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_BASE,
               PNG_FILTER_TYPE_BASE);
  if (kind.color_type == PNG_COLOR_TYPE_PALETTE) {
    png_color palette[4] = {{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {10, 20, 30}};
    png_set_PLTE(png, info, palette, 4);
  }
  png_write_info(png, info);
  const size_t channels = png_get_channels(png, info), row = png_get_rowbytes(png, info);
  std::vector<std::vector<uint8_t>> rows(height, std::vector<uint8_t>(row, 0));
  std::vector<png_bytep> pointers;
  for (size_t y = 0; y < height; ++y) {
    for (size_t x = 0; x < width; ++x)
      for (size_t c = 0; c < channels; ++c) {
        const unsigned value = sample(x, y, c);
        const size_t bit = (x * channels + c) * static_cast<size_t>(kind.bit_depth);
        if (kind.bit_depth == 16) {
          rows[y][bit / 8] = static_cast<uint8_t>(value >> 8);
          rows[y][bit / 8 + 1] = static_cast<uint8_t>(value);
        } else {
          rows[y][bit / 8] |= static_cast<uint8_t>(value << (8 - kind.bit_depth - static_cast<int>(bit % 8)));
        }
      }
    pointers.push_back(rows[y].data());
  }
  png_write_image(png, pointers.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

std::string make_jpeg(size_t width, size_t height, const JpegKind& kind,
                      const std::function<unsigned(size_t, size_t, size_t)>& sample) {
  jpeg_compress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &buffer, &size);
  jpeg.image_width = static_cast<JDIMENSION>(width);
  jpeg.image_height = static_cast<JDIMENSION>(height);
  jpeg.input_components = kind.components;
  jpeg.in_color_space = kind.components == 1 ? JCS_GRAYSCALE : kind.components == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 100, TRUE);
  if (kind.progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  const size_t channels = static_cast<size_t>(kind.components);
  std::vector<uint8_t> row(width * channels);
  for (size_t y = 0; y < height; ++y) {
    for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<uint8_t>(sample(i / channels, y, i % channels));
    JSAMPROW line = row.data();
    jpeg_write_scanlines(&jpeg, &line, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  const std::string file(reinterpret_cast<char*>(buffer), size);
  std::free(buffer);
  return file;
}

std::string png_claiming(uint32_t width, uint32_t height) {
  const auto big_endian = [](uint32_t v) {
    return std::string{static_cast<char>(v >> 24), static_cast<char>(v >> 16), static_cast<char>(v >> 8),
                       static_cast<char>(v)};
  };
  const auto chunk = [&](const std::string& type, const std::string& data) {
    const std::string body = type + data;
    const auto sum = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
    return big_endian(static_cast<uint32_t>(data.size())) + body + big_endian(static_cast<uint32_t>(sum));
  };
  return "\x89PNG\r\n\x1a\n" +
         chunk("IHDR", big_endian(width) + big_endian(height) + std::string("\x08\x02\0\0\0", 5)) + chunk("IDAT", "x") +
         chunk("IEND", "");
}

}  // namespace quern
