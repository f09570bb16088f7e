#include "read_only_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#ifdef _WIN32
#define NOMINMAX
#include <windows.h>
#else
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace anneal::weights {

#ifdef _WIN32

ReadOnlyFile::ReadOnlyFile(const std::string& path) : path_(path) {
  const int length = MultiByteToWideChar(CP_UTF8, 0, path.c_str(), -1, nullptr, 0);
  std::wstring wide(size_t(length), L'\0');
  MultiByteToWideChar(CP_UTF8, 0, path.c_str(), -1, wide.data(), length);
  handle_ =
      CreateFileW(wide.c_str(), GENERIC_READ, FILE_SHARE_READ, nullptr, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr);
  if (handle_ == INVALID_HANDLE_VALUE)
    throw FileError(path, "cannot be opened (error " + std::to_string(GetLastError()) + ")");
  if (GetFileType(handle_) == FILE_TYPE_DISK) return;
  CloseHandle(handle_);
  throw FileError(path, "is not a regular file");
}

ReadOnlyFile::~ReadOnlyFile() { CloseHandle(handle_); }

void ReadOnlyFile::read(int64_t offset, void* dst, size_t bytes) const {
  char* to = static_cast<char*>(dst);
  while (bytes > 0) {
    OVERLAPPED at = {};
    at.Offset = DWORD(offset);
    at.OffsetHigh = DWORD(offset >> 32);
    DWORD got = 0;
    if (!ReadFile(handle_, to, DWORD(std::min<size_t>(bytes, 1 << 30)), &got, &at) || got == 0)
      throw FileError(path_, "ends before byte " + std::to_string(offset + int64_t(bytes)));
    to += got;
    offset += got;
    bytes -= got;
  }
}

#else

// Nonblocking: opening a pipe that nobody writes to must not hold up the thread. It changes nothing for regular files.
ReadOnlyFile::ReadOnlyFile(const std::string& path)
    : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) {
  if (descriptor_ < 0) throw FileError(path, std::strerror(errno));
  struct stat status;
  if (::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode)) return;
  ::close(descriptor_);
  throw FileError(path, "is not a regular file");
}

ReadOnlyFile::~ReadOnlyFile() { ::close(descriptor_); }

void ReadOnlyFile::read(int64_t offset, void* dst, size_t bytes) const {
  char* to = static_cast<char*>(dst);
  const int64_t end = offset + int64_t(bytes);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, to, bytes, off_t(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw FileError(path_, std::strerror(errno));
    if (got == 0)
      throw FileError(path_, "ends at byte " + std::to_string(offset) + ", " + std::to_string(end) + " expected");
    to += got;
    offset += got;
    bytes -= size_t(got);
  }
}

#endif

}  // namespace anneal::weights
