#include "agent/files/tree/default_excludes.h"

#include <stddef.h>

const char *const left_out_directories[] = {
    ".git",  "node_modules", "bin",      "obj",        ".vs",    ".idea",       "dist", "build",
    ".next", ".nuxt",        "coverage", ".terraform", "vendor", "__pycache__", NULL};
