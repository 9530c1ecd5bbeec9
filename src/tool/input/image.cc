#include "tool/input/image.h"

#include <fmt/format.h>
#include <jpeglib.h>
#include <png.h>

#include <algorithm>
#include <cctype>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "convert/common/file.h"

// Both libraries report errors by longjmp. Each function that calls setjmp therefore holds no object with a
// destructor, and memory is allocated between such functions, never inside.
namespace quern {
namespace {

constexpr size_t max_image_bytes = size_t{256} << 20;
constexpr size_t max_message = 200;
constexpr int max_jpeg_scans = 64;  // each scan of a progressive file may cost as much as a full decode

// ---- PNG ----------------------------------------------------------------------------------------------------------

constexpr size_t max_inflation = 1032;  // bytes that the compression method can make of one

struct PngInput {
  std::string_view file;
  size_t at;
  char message[max_message];
};

void png_failed(png_structp png, png_const_charp message) {
  auto* input = static_cast<PngInput*>(png_get_error_ptr(png));
  std::snprintf(input->message, max_message, "%s", message);
  png_longjmp(png, 1);
}
void png_warned(png_structp, png_const_charp) {}

void png_give(png_structp png, png_bytep out, size_t count) {
  auto* input = static_cast<PngInput*>(png_get_io_ptr(png));
  if (count > input->file.size() - input->at) png_error(png, "the file ends early");
  std::memcpy(out, input->file.data() + input->at, count);
  input->at += count;
}

class PngReader {
 public:
  PngReader(std::string_view file, const std::string& who) : input_{file, 0, ""}, who_(who) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &input_, png_failed, png_warned);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, &info_, nullptr);
      throw Error(fmt::format("{}: the PNG decoder cannot start", who));
    }
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  Image read() {
    Image image;
    if (!header()) fail();
    image.width = png_get_image_width(png_, info_);
    image.height = png_get_image_height(png_, info_);
    check_image_size(image.width, image.height, who_);
    if (png_get_rowbytes(png_, info_) * image.height / max_inflation > input_.file.size())
      throw Error(fmt::format("{}: the file is too short for {} x {} pixels", who_, image.width, image.height));
    if (!transform()) fail();
    image.channels = png_get_channels(png_, info_);
    const size_t row = image.width * image.channels;
    if (image.channels > 3 || image.channels == 2 || png_get_rowbytes(png_, info_) != row)
      throw Error(fmt::format("{}: an unknown kind of PNG", who_));
    image.pixels.resize(row * image.height);
    std::vector<png_bytep> rows(image.height);
    for (size_t y = 0; y < image.height; ++y) rows[y] = image.pixels.data() + y * row;
    if (!body(rows.data())) fail();
    return image;
  }

 private:
  [[noreturn]] void fail() const { throw Error(fmt::format("{}: damaged PNG: {}", who_, input_.message)); }

  bool header() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_read_fn(png_, &input_, png_give);
    png_set_user_limits(png_, max_image_side, max_image_side);
    png_read_info(png_, info_);
    return true;
  }
  bool transform() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_expand(png_);
    png_set_scale_16(png_);
    png_set_strip_alpha(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }
  bool body(png_bytepp rows) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_image(png_, rows);
    png_read_end(png_, nullptr);
    return true;
  }

  PngInput input_;
  const std::string& who_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

// ---- JPEG ---------------------------------------------------------------------------------------------------------

struct JpegErrors {
  jpeg_error_mgr base;  // must be first: the library knows only this part
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void jpeg_failed(j_common_ptr jpeg) {
  auto* errors = reinterpret_cast<JpegErrors*>(jpeg->err);
  jpeg->err->format_message(jpeg, errors->message);
  std::longjmp(errors->jump, 1);
}

// If a file ends early, the library fills the rest of the picture with gray and only warns; here that is an error. Its
// other warnings are about oddities and do not matter.
void jpeg_noted(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  char text[JMSG_LENGTH_MAX];
  jpeg->err->format_message(jpeg, text);
  if (std::strstr(text, "Premature end") == nullptr) return;
  std::snprintf(reinterpret_cast<JpegErrors*>(jpeg->err)->message, JMSG_LENGTH_MAX, "the file ends early");
  std::longjmp(reinterpret_cast<JpegErrors*>(jpeg->err)->jump, 1);
}

void jpeg_progress(j_common_ptr jpeg) {
  if (!jpeg->is_decompressor || reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= max_jpeg_scans) return;
  auto* errors = reinterpret_cast<JpegErrors*>(jpeg->err);
  std::snprintf(errors->message, JMSG_LENGTH_MAX, "more than %d scans", max_jpeg_scans);
  std::longjmp(errors->jump, 1);
}

class JpegReader {
 public:
  JpegReader(std::string_view file, const std::string& who) : file_(file), who_(who) {
    jpeg_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = jpeg_failed;
    errors_.base.emit_message = jpeg_noted;
    progress_.progress_monitor = jpeg_progress;
  }
  ~JpegReader() { jpeg_destroy_decompress(&jpeg_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  Image read() {
    Image image;
    if (!header()) fail();
    image.width = jpeg_.image_width;
    image.height = jpeg_.image_height;
    check_image_size(image.width, image.height, who_);
    if (jpeg_.jpeg_color_space == JCS_CMYK || jpeg_.jpeg_color_space == JCS_YCCK)
      throw Error(fmt::format("{}: CMYK pictures are not supported; save it as RGB", who_));
    image.channels = jpeg_.jpeg_color_space == JCS_GRAYSCALE ? 1 : 3;
    jpeg_.out_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    image.pixels.resize(image.width * image.height * image.channels);
    if (!body(image.pixels.data(), image.width * image.channels)) fail();
    return image;
  }

 private:
  [[noreturn]] void fail() const { throw Error(fmt::format("{}: damaged JPEG: {}", who_, errors_.message)); }

  bool header() {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_create_decompress(&jpeg_);
    jpeg_.progress = &progress_;
    jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(file_.data()), file_.size());
    jpeg_read_header(&jpeg_, TRUE);
    return true;
  }
  bool body(uint8_t* pixels, size_t row) {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_start_decompress(&jpeg_);
    while (jpeg_.output_scanline < jpeg_.output_height) {
      JSAMPROW line = pixels + jpeg_.output_scanline * row;
      jpeg_read_scanlines(&jpeg_, &line, 1);
    }
    jpeg_finish_decompress(&jpeg_);
    return true;
  }

  std::string_view file_;
  const std::string& who_;
  jpeg_decompress_struct jpeg_ = {};
  JpegErrors errors_ = {};
  jpeg_progress_mgr progress_ = {};
};

}  // namespace

void check_image_size(size_t width, size_t height, const std::string& who) {
  if (width == 0 || height == 0 || width > max_image_side || height > max_image_side ||
      width * height > max_image_pixels)
    throw Error(fmt::format("{}: {} x {} pixels are more than {} million, or a side is longer than {}", who, width,
                            height, max_image_pixels / 1000000, max_image_side));
}

Image decode_image(std::string_view file, const std::string& who) {
  if (file.starts_with("\x89PNG")) return PngReader(file, who).read();
  if (file.starts_with("\xff\xd8\xff")) return JpegReader(file, who).read();
  throw Error(fmt::format("{}: neither PNG nor JPEG", who));
}

Image read_image(const std::string& path) { return decode_image(read_file(path, max_image_bytes), path); }

bool is_image_name(const std::string& path) {
  std::string end = path.substr(std::min(path.rfind('.'), path.size()));
  for (char& c : end) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return end == ".png" || end == ".jpg" || end == ".jpeg";
}

Image with_channels(Image image, size_t channels) {
  if (image.channels == channels) return image;
  Image out = {image.width, image.height, channels, {}};
  const size_t count = image.width * image.height;
  out.pixels.resize(count * channels);
  for (size_t i = 0; i < count; ++i) {
    if (channels == 3) {
      std::fill_n(&out.pixels[3 * i], 3, image.pixels[i]);
    } else {
      const uint8_t* rgb = &image.pixels[3 * i];
      // 0.299, 0.587 and 0.114 in 16 bits of fraction, rounded.
      out.pixels[i] = static_cast<uint8_t>((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 0x8000u) >> 16);
    }
  }
  return out;
}

}  // namespace quern
