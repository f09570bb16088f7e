// What the test programs have in common: expectations that did not hold are printed and counted.
#pragma once
#include <cstdio>
#include <string>

namespace anneal {

inline int checks = 0, failures = 0;

inline void expect(bool ok, const std::string& what) {
  checks++;
  if (ok) return;
  failures++;
  std::printf("FAILED %s\n", what.c_str());
}

// The last line of a program, and its exit status.
inline int report_failures() {
  std::printf(failures ? "%d failures\n" : "all passed\n", failures);
  return failures ? 1 : 0;
}

}  // namespace anneal
