// Files that weights are read from: positioned reads, never mapped, so that a file that is truncated meanwhile is an
// error and not a crash.
#pragma once
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace anneal::weights {

// A file that cannot be opened or holds less than it should.
struct FileError : std::runtime_error {
  FileError(std::string file_, const std::string& what) : std::runtime_error(what), file(std::move(file_)) {}
  std::string file;
};

// A regular file opened for positioned reads from any thread.
class ReadOnlyFile {
 public:
  // Throws FileError, also for a pipe or a device, without waiting for it.
  explicit ReadOnlyFile(const std::string& path);
  ~ReadOnlyFile();
  ReadOnlyFile(const ReadOnlyFile&) = delete;
  ReadOnlyFile& operator=(const ReadOnlyFile&) = delete;

  // Reads exactly `bytes` at `offset`; throws FileError when they are not there.
  void read(int64_t offset, void* dst, size_t bytes) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
#ifdef _WIN32
  void* handle_;
#else
  int descriptor_;
#endif
};

}  // namespace anneal::weights
