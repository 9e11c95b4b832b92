/*
 * How large the program is, against an empty one with the whole of the four libraries in it,
 * linked and stripped in the same way. What the linker would leave out of a program that calls
 * nothing is in the ceiling: with it, the libraries have no size.
 */
#include <sys/stat.h>

#include "bench/bench.h"
#include "bench/measurements.h"
#include "bench/rig.h"
#include "tests/test.h"

#define LIMIT_BYTES 930000 /* as MAX_BYTES in the Makefile */

static double size_of(const char *path) {
  struct stat file;
  if (stat(path, &file) != 0)
    fail_msg("no file %s", path);
  return (double)file.st_size;
}

static void round_of_both(void *context, size_t round, struct samples *samples) {
  (void)context;
  (void)round;
  char empty[PATH_MAX];
  rig_program(empty, "empty");
  double ours = size_of(agent_process_program());
  samples_add(samples, 0, OURS, ours);
  samples_add(samples, 0, CEILING, size_of(empty));
  samples_add(samples, 1, OURS, ours);
}

static const struct row rows[] = {
    {"binary", "bytes", "empty main, the same libraries", RATIO_AT_MOST, 1.35, 0},
    {"binary, as it is", "bytes", NULL, OURS_AT_MOST, LIMIT_BYTES, 0},
};

const struct measurement bench_size = {.name = "size",
                                       .rows = rows,
                                       .row_count = sizeof rows / sizeof *rows,
                                       .rounds = 1,
                                       .round = round_of_both};
