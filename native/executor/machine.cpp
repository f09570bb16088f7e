#include "machine.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#ifdef _WIN32
#define NOMINMAX
#include <windows.h>
#else
#include <unistd.h>
#endif
#ifdef __linux__
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#endif
#ifdef __GLIBC__
#include <malloc.h>
#endif
#ifdef __APPLE__
#include <mach/mach.h>
#include <pthread/qos.h>
#include <sys/sysctl.h>
#endif
#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

namespace anneal::executor {

namespace {

// Bytes of memory where the system does not tell: a number that JavaScript holds exactly, also in sums.
constexpr int64_t kUnknownMemory = int64_t(1) << 50;

#ifdef __linux__
std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// The folder of this process's control group for a controller ("" in version 2), and those above it.
std::vector<std::string> control_groups(const std::string& controller) {
  std::vector<std::string> folders;
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const auto a = line.find(':'), b = line.find(':', a + 1);
    if (a == std::string::npos || b == std::string::npos) continue;
    const std::string names = "," + line.substr(a + 1, b - a - 1) + ",";
    std::string path = line.substr(b + 1);
    const bool version2 = names == ",,";
    if (!version2 && names.find("," + controller + ",") == std::string::npos) continue;
    const std::string root = version2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controller;
    for (;;) {
      folders.push_back(root + (path == "/" ? "" : path));
      const auto slash = path.rfind('/');
      if (path.empty() || path == "/" || slash == std::string::npos) break;
      path = slash == 0 ? "/" : path.substr(0, slash);
    }
  }
  return folders;
}

double cpu_quota() {
  double quota = 1e9;
  for (const auto& folder : control_groups("cpu")) {
    std::istringstream both(first_line(folder + "/cpu.max"));
    double limit = 0, period = 0;
    if (both >> limit >> period && limit > 0 && period > 0) quota = std::min(quota, limit / period);
    std::istringstream one(first_line(folder + "/cpu.cfs_quota_us")), other(first_line(folder + "/cpu.cfs_period_us"));
    if (one >> limit && other >> period && limit > 0 && period > 0) quota = std::min(quota, limit / period);
  }
  return quota;
}

int64_t number_in(const std::string& path, int64_t otherwise) {
  std::istringstream in(first_line(path));
  int64_t value;
  return in >> value ? value : otherwise;
}

// Page cache that the kernel would give up before it refuses memory to the group.
int64_t reclaimable(const std::string& folder) {
  std::ifstream in(folder + "/memory.stat");
  int64_t bytes = 0, value;
  for (std::string key; in >> key >> value;)
    if (key == "inactive_file" || key == "active_file") bytes += value;
  return bytes;
}

// What limits of the process leave of its address space (ulimit -v) and of what it may write to there (-d).
int64_t left_by_limits() {
  std::ifstream in("/proc/self/statm");
  int64_t pages[6] = {};  // all, resident, shared, code, libraries, data and stacks
  for (int64_t& count : pages) in >> count;
  const auto left = [](int resource, int64_t taken) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur > rlim_t(kUnknownMemory)) return kUnknownMemory;
    return std::max<int64_t>(0, int64_t(limit.rlim_cur) - taken * int64_t(::sysconf(_SC_PAGESIZE)));
  };
  return std::min(left(RLIMIT_AS, pages[0]), left(RLIMIT_DATA, pages[5]));
}
#endif

}  // namespace

int whole_cores(double quota) { return int(std::clamp(quota, 1.0, 1e6)); }

int usable_cores() {
#ifdef __linux__
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return std::max(1u, std::thread::hardware_concurrency());
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) {
      const std::string siblings =
          first_line("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
      cores.insert(siblings.empty() ? "cpu" + std::to_string(cpu) : siblings);
    }
  return std::max(1, std::min(int(cores.size()), whole_cores(cpu_quota())));
#elif defined(__APPLE__)
  int cores = 0;
  size_t size = sizeof cores;
  // Efficiency cores would be the last to finish every loop.
  if (sysctlbyname("hw.perflevel0.physicalcpu", &cores, &size, nullptr, 0) != 0)
    if (sysctlbyname("hw.physicalcpu", &cores, &size, nullptr, 0) != 0) cores = 1;
  return std::max(1, cores);
#else
  return std::max(1u, std::thread::hardware_concurrency() / 2);
#endif
}

int64_t available_memory() {
#ifdef __linux__
  // Where /proc is not mounted, this much is known. It leaves out the page cache.
  struct sysinfo system;
  int64_t available =
      sysinfo(&system) == 0 ? int64_t(system.freeram + system.bufferram) * system.mem_unit : kUnknownMemory;
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("MemAvailable:", 0) == 0) available = std::stoll(line.substr(13)) * 1024;
  for (const auto& folder : control_groups("memory")) {
    const int64_t limit =
        std::min(number_in(folder + "/memory.max", INT64_MAX), number_in(folder + "/memory.limit_in_bytes", INT64_MAX));
    const int64_t used =
        std::max(number_in(folder + "/memory.current", 0), number_in(folder + "/memory.usage_in_bytes", 0));
    if (limit < int64_t(1) << 60)
      available = std::min(available, std::max<int64_t>(0, limit - used + std::min(used, reclaimable(folder))));
  }
  return std::min(available, left_by_limits());
#elif defined(__APPLE__)
  vm_statistics64_data_t statistics;
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  if (host_statistics64(mach_host_self(), HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&statistics), &count) !=
      KERN_SUCCESS)
    return kUnknownMemory;
  return int64_t(statistics.free_count + statistics.inactive_count + statistics.purgeable_count) *
         int64_t(sysconf(_SC_PAGESIZE));
#elif defined(_WIN32)
  MEMORYSTATUSEX status;
  status.dwLength = sizeof status;
  return GlobalMemoryStatusEx(&status) ? int64_t(status.ullAvailPhys) : kUnknownMemory;
#else
  return kUnknownMemory;
#endif
}

void give_back_freed_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

void claim_fast_cores() {
#ifdef __APPLE__
  pthread_set_qos_class_self_np(QOS_CLASS_USER_INITIATED, 0);
#endif
}

#ifdef __linux__
namespace {

constexpr size_t kLargePage = size_t(2) << 20;

}  // namespace

// The end of the last page is a large one too, unless that takes a quarter more.
size_t large_pages_bytes(size_t bytes) {
  const size_t whole = (bytes + kLargePage - 1) / kLargePage * kLargePage;
  return whole - bytes <= bytes / 4 ? whole : bytes;
}

char* take_large_pages(size_t bytes) {
  if (bytes > SIZE_MAX / 4) return nullptr;
  const size_t mapped = large_pages_bytes(bytes);
  if (mapped < kLargePage) return nullptr;
  void* const area = ::mmap(nullptr, mapped + kLargePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(area);
  const size_t skipped = (kLargePage - reinterpret_cast<uintptr_t>(begin) % kLargePage) % kLargePage;
  const size_t page = size_t(::sysconf(_SC_PAGESIZE));
  const size_t used = (mapped + page - 1) / page * page;
  if (skipped > 0) ::munmap(begin, skipped);
  ::munmap(begin + skipped + used, kLargePage - skipped);
  // A system without large pages leaves it at small ones.
  ::madvise(begin + skipped, mapped, MADV_HUGEPAGE);
  return begin + skipped;
}

void give_large_pages(char* pages, size_t bytes) { ::munmap(pages, large_pages_bytes(bytes)); }
#else
char* take_large_pages(size_t) { return nullptr; }
size_t large_pages_bytes(size_t bytes) { return bytes; }
void give_large_pages(char*, size_t) {}
#endif

void spin_pause() {
#if defined(__x86_64__) || defined(_M_X64)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

}  // namespace anneal::executor
