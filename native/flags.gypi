# What every target is compiled with: C++20, and no arithmetic that was not written.
{
  "cflags_cc!": ["-std=gnu++17", "-fno-exceptions"],
  "cflags_cc": ["-std=gnu++20", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fexceptions", "-fvisibility=hidden", "-Wall", "-Wextra",
                "-Wno-unused-parameter", "-Wno-missing-field-initializers", "-Wno-psabi", "-Wno-uninitialized", "-Wno-maybe-uninitialized"],
  "xcode_settings": {
    "CLANG_CXX_LANGUAGE_STANDARD": "gnu++20",
    "CLANG_CXX_LIBRARY": "libc++",
    "GCC_OPTIMIZATION_LEVEL": "3",
    "GCC_ENABLE_CPP_EXCEPTIONS": "YES",
    "GCC_SYMBOLS_PRIVATE_EXTERN": "YES",
    "MACOSX_DEPLOYMENT_TARGET": "12.0",
    "OTHER_CPLUSPLUSFLAGS": ["-ffp-contract=off", "-fno-math-errno"]
  },
  "msvs_settings": {"VCCLCompilerTool": {"AdditionalOptions": ["/std:c++20", "/fp:strict"], "ExceptionHandling": 1}}
}
