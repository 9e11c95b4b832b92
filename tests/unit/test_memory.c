#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "tests/test.h"

/* Read by the address sanitizer, which would else end the program in its own way. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
  return "allocator_may_return_null=1";
}

TEST(a_copy_ends_in_a_nul) {
  char *copy = memory_copy("a\0bcd", 3);
  assert_memory_equal(copy, "a\0b", 4);
  free(copy);
  copy = memory_copy(NULL, 0);
  assert_string_equal(copy, "");
  free(copy);
}

TEST(it_resizes_and_keeps_what_is_there) {
  char *memory = memory_resize(NULL, 4);
  memcpy(memory, "abc", 4);
  memory = memory_resize(memory, 4096);
  assert_string_equal(memory, "abc");
  memory[4095] = 'x';
  free(memory);
}

TEST(nothing_is_still_a_pointer) {
  void *memory = memory_allocate(0);
  assert_non_null(memory);
  free(memory);
}

TEST(out_of_memory_ends_it_with_one_line) {
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
