#include "base/memory.h"
#include "tests/test.h"

/* Stops the address sanitizer from ending the program itself. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
  return "allocator_may_return_null=1";
}

TEST(out_of_memory_ends_the_program_with_one_line) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    volatile size_t size = SIZE_MAX / 4;
    free(memory_allocate(size));
    _exit(0);
  }
  close(ends[1]);
  char said[4096];
  size_t length = 0;
  ssize_t n;
  while ((n = read(ends[0], said + length, sizeof said - 1 - length)) > 0)
    length += (size_t)n;
  said[length] = '\0';
  close(ends[0]);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), MEMORY_EXHAUSTED_EXIT);
  assert_non_null(strstr(said, "out of memory: no 4611686018427387903 bytes\n"));
}
