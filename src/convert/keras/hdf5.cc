#include "convert/keras/hdf5.h"

#ifdef QUERN_HDF5

#include <dlfcn.h>
#include <hdf5.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/math.h"
#include "convert/keras/confined.h"

namespace quern::keras {
namespace {

constexpr int max_group_depth = 16;      // of groups within each other; links may lead in circles
constexpr size_t max_objects = 100'000;  // groups and datasets

// The functions of libhdf5 that File calls. The constructor loads libhdf5. Linked, it would double the start-up time of the
// command: Debian's depends on thirty libraries, for remote files. Some names are macros of hdf5.h.
class Hdf5 {
 public:
#define QN_TEXT(name) #name
#define QN_NAME(name) QN_TEXT(name)
#define QN_FUNCTION(name) decltype(&::name) const name = reinterpret_cast<decltype(&::name)>(find(QN_NAME(name)))
  QN_FUNCTION(H5Aexists);
  QN_FUNCTION(H5Aget_space);
  QN_FUNCTION(H5Aget_type);
  QN_FUNCTION(H5Aopen);
  QN_FUNCTION(H5Aread);
  QN_FUNCTION(H5Dget_create_plist);
  QN_FUNCTION(H5Dget_space);
  QN_FUNCTION(H5Dget_type);
  QN_FUNCTION(H5Dread);
  QN_FUNCTION(H5Eset_auto2);
  QN_FUNCTION(H5Fopen);
  QN_FUNCTION(H5Iget_type);
  QN_FUNCTION(H5Lexists);
  QN_FUNCTION(H5Literate);
  QN_FUNCTION(H5Oclose);
  QN_FUNCTION(H5Oopen);
  QN_FUNCTION(H5PLset_loading_state);
  QN_FUNCTION(H5Pget_external_count);
  QN_FUNCTION(H5Pget_layout);
  QN_FUNCTION(H5Sget_simple_extent_dims);
  QN_FUNCTION(H5Sget_simple_extent_ndims);
  QN_FUNCTION(H5Sget_simple_extent_npoints);
  QN_FUNCTION(H5Sget_simple_extent_type);
  QN_FUNCTION(H5Tget_class);
  QN_FUNCTION(H5Tget_size);
  QN_FUNCTION(H5Tis_variable_str);
  QN_FUNCTION(H5check_version);
  QN_FUNCTION(H5open);
#undef QN_FUNCTION
#undef QN_NAME
#undef QN_TEXT
  const hid_t& H5T_NATIVE_FLOAT_g = *static_cast<const hid_t*>(find("H5T_NATIVE_FLOAT_g"));  // H5open sets it

 private:
  static void* find(const char* name) {
    static void* const library = dlopen(QUERN_HDF5, RTLD_LAZY | RTLD_GLOBAL);
    // Global lookup: a program that links libhdf5 has its own copies of the library's variables.
    void* const found = library == nullptr ? nullptr : dlsym(RTLD_DEFAULT, name);
    if (found == nullptr) throw Error(std::string("cannot load libhdf5: ") + dlerror());
    return found;
  }
};

// An identifier of libhdf5. Nothing closes it: the process ends soon.
hid_t expect_id(hid_t id, const std::string& what) {
  if (id < 0) throw Error(what + " cannot be read");
  return id;
}
void expect_success(herr_t status, const std::string& what) {
  if (status < 0) throw Error(what + " cannot be read");
}

// Everything below runs in the child process. What File calls are members of Hdf5, which hide functions of these names.
class File : Hdf5 {
 public:
  File(const Hdf5& hdf5, const std::string& path, uint64_t limit, Sender& sender)
      : Hdf5(hdf5), left_(limit), sender_(sender) {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    H5PLset_loading_state(0);  // no plugins: a file could ask for code from anywhere
    file_ = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file_ < 0) throw Error("not an HDF5 file, or damaged");
  }

  void send() {
    const bool has_weights = H5Lexists(file_, "model_weights", H5P_DEFAULT) > 0;
    if (H5Aexists(file_, "model_config") <= 0) {
      const bool only_weights = has_weights || H5Aexists(file_, "layer_names") > 0;
      throw Error(only_weights ? "weights without an architecture (no 'model_config'): save the whole model"
                               : "not a model of Keras: 'model_config' is missing");
    }
    sender_.config(text("model_config"));
    if (H5Aexists(file_, "keras_version") > 0) sender_.version(text("keras_version"));
    if (has_weights) send_group(open(file_, "model_weights", "model_weights"), "", 0);
  }

 private:
  hid_t open(hid_t group, const std::string& name, const std::string& path) const {
    return expect_id(H5Oopen(group, name.c_str(), H5P_DEFAULT), "'" + path + "'");
  }

  void charge(uint64_t bytes) {
    if (bytes > left_) throw Error("its content is far larger than the file");
    left_ -= bytes;
  }

  // The text of an attribute of the file, of a fixed length or not.
  std::string text(const char* name) {
    const std::string what = std::string("the attribute '") + name + "'";
    const hid_t attribute = expect_id(H5Aopen(file_, name, H5P_DEFAULT), what);
    const hid_t type = expect_id(H5Aget_type(attribute), what);
    const hid_t space = expect_id(H5Aget_space(attribute), what);
    if (H5Tget_class(type) != H5T_STRING || H5Sget_simple_extent_npoints(space) != 1)
      throw Error(what + " must be a string");
    if (H5Tis_variable_str(type) > 0) {
      char* text = nullptr;
      expect_success(H5Aread(attribute, type, &text), what);
      if (text == nullptr) return "";
      charge(std::strlen(text));
      return text;
    }
    charge(H5Tget_size(type));
    std::string text(H5Tget_size(type), '\0');
    expect_success(H5Aread(attribute, type, text.data()), what);
    return text.substr(0, text.find('\0'));
  }

  void send_group(hid_t group, const std::string& path, int depth) {
    if (depth > max_group_depth) throw Error("groups lie too deep within each other");
    std::vector<std::string> names;
    expect_success(H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, add_name, &names), "'" + path + "'");
    for (const std::string& name : names) {
      if (++objects_ > max_objects) throw Error("more than " + std::to_string(max_objects) + " weights");
      const std::string inner = path.empty() ? name : path + "/" + name;
      const hid_t object = open(group, name, inner);
      const H5I_type_t kind = H5Iget_type(object);
      if (kind == H5I_GROUP) send_group(object, inner, depth + 1);
      if (kind == H5I_DATASET) send_dataset(object, inner);
      H5Oclose(object);
    }
  }

  // Names only what is in the file itself: soft and external links are left out.
  static herr_t add_name(hid_t, const char* name, const H5L_info_t* link, void* names) {
    if (link->type == H5L_TYPE_HARD) static_cast<std::vector<std::string>*>(names)->emplace_back(name);
    return 0;
  }

  void send_dataset(hid_t dataset, const std::string& path) {
    const std::string what = "the weights '" + path + "'";
    const hid_t properties = expect_id(H5Dget_create_plist(dataset), what);
    if (H5Pget_layout(properties) == H5D_VIRTUAL || H5Pget_external_count(properties) != 0) {
      throw Error(what + " are in another file");
    }
    const H5T_class_t type = H5Tget_class(expect_id(H5Dget_type(dataset), what));
    if (type != H5T_FLOAT && type != H5T_INTEGER) throw Error(what + " must be floats or integers");
    Weight weight;
    weight.shape = shape_of(expect_id(H5Dget_space(dataset), what), what);
    uint64_t bytes = sizeof(float);
    for (const size_t d : weight.shape) {
      if (!checked_mul(bytes, uint64_t{d}, &bytes)) throw Error("its content is far larger than the file");
    }
    charge(bytes);
    weight.data.resize(static_cast<size_t>(bytes) / sizeof(float));
    if (bytes > 0) {
      const herr_t status = H5Dread(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, weight.data.data());
      expect_success(status, what);
    }
    sender_.weight(path, weight);
  }

  Shape shape_of(hid_t space, const std::string& what) const {
    const int rank = H5Sget_simple_extent_ndims(space);
    if (rank < 0 || rank > 8 || H5Sget_simple_extent_type(space) == H5S_NULL) throw Error(what + " have no shape");
    hsize_t dims[8] = {};
    expect_success(H5Sget_simple_extent_dims(space, dims, nullptr), what);
    Shape shape;
    for (int d = 0; d < rank; ++d) {
      if (dims[d] > SIZE_MAX) throw Error("its content is far larger than the file");
      shape.push_back(static_cast<size_t>(dims[d]));
    }
    return shape;
  }

  uint64_t left_;
  Sender& sender_;
  hid_t file_;
  size_t objects_ = 0;
};

void send_file(const Hdf5& hdf5, const std::string& path, uint64_t limit, const Write& write) {
  Sender sender(write);
  try {
    File(hdf5, path, limit, sender).send();
    sender.end();
  } catch (const Error& error) {
    sender.fail(error.what());
  } catch (const std::bad_alloc&) {
    sender.fail("not enough memory");
  }
}

uint64_t size_of_file(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) throw Error(std::string("cannot open: ") + std::strerror(errno));
  if (!S_ISREG(status.st_mode)) throw Error("not a regular file");
  return static_cast<uint64_t>(status.st_size);
}

}  // namespace

Contents read_hdf5(const std::string& path) {
  constexpr uint64_t mebibyte = uint64_t{1} << 20;
  const uint64_t size = size_of_file(path);
  if (size > uint64_t{1} << 40) throw Error("larger than 2^40 bytes");
  // Numbers may be halves in the file, or compressed.
  const uint64_t content = 16 * mebibyte + 8 * size;
  const Hdf5 hdf5;  // loaded here: the child may not open that many files
  Contents contents;
  run_confined(
      limits_of_reading(size, content), [&](const Write& write) { send_file(hdf5, path, content, write); },
      [&](const Read& read) { contents = read_contents(read, 2 * content); });
  return contents;
}

}  // namespace quern::keras

#else

namespace quern::keras {
Contents read_hdf5(const std::string&) { throw Error("this build cannot read HDF5: it was made without libhdf5"); }
}  // namespace quern::keras

#endif
