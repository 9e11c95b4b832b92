/* The server of October uploads files in chunks under a temporary name; the last chunk renames the
   file. */

#include "tests/support/encoded.h"
#include "tests/support/kind_rows.h"
#include "tests/support/october_server.h"
#include "tests/support/tree.h"
#include "tests/test.h"

TEST_OVERLAP(4)

#define MIB 1048576

/* --- files ------------------------------------------------------------------------------------ */

/* Bytes of all values, different in each chunk; to be freed. */
static unsigned char *make_bytes(size_t length) {
  unsigned char *bytes = malloc(length + 1);
  assert_non_null(bytes);
  uint32_t state = 12345;
  for (size_t i = 0; i < length; i++)
    bytes[i] = (unsigned char)((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

static void expect_file(const char *path, const unsigned char *bytes, size_t length) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  assert_true(fd >= 0);
  unsigned char *found = malloc(length + 1);
  assert_non_null(found);
  size_t held = 0;
  ssize_t count;
  while (held <= length && (count = read(fd, found + held, length + 1 - held)) > 0)
    held += (size_t)count;
  close(fd);
  assert_int_equal(held, length);
  assert_memory_equal(found, bytes, length);
  free(found);
}

/* The number of names in the directory. */
static int count_names(const char *directory) {
  const struct tree tree = {.fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  int count = tree_count(&tree, ".");
  close(tree.fd);
  return count;
}

/* --- sizes ------------------------------------------------------------------------------------ */

/* No chunk, one and many chunks, and one byte more. */
OCTOBER_TEST(files_of_each_size_arrive) {
  static const size_t lengths[] = {0, 1, 4 * MIB, 4 * MIB + 1, 25 * MIB};
  struct job *job = server->job;
  const char *directory = kind_rows_directory(job);
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    unsigned char *bytes = make_bytes(lengths[i]);
    const char *error = october_upload(server, directory, "big.pdf", bytes, lengths[i], true);
    if (error != NULL)
      job_fail(job, "%s", error);
    expect_file(kind_rows_path(job, "big.pdf"), bytes, lengths[i]);
    assert_int_equal(count_names(directory), 1);
    free(bytes);
  }
}

/* The server refuses it by itself. If it did not, the agent would, and would leave nothing. */
OCTOBER_TEST(a_file_of_more_than_25_mebibytes_is_rejected) {
  const char *directory = kind_rows_directory(server->job);
  unsigned char *bytes = make_bytes(25 * MIB + 1);
  assert_string_equal(october_upload(server, directory, "b", bytes, 25 * MIB + 1, true),
                      "'b' is 26214401 bytes, over the 26214400-byte limit");
  const char *error = october_upload(server, directory, "b", bytes, 25 * MIB + 1, false);
  assert_non_null(error);
  assert_string_equal(error, "writing 'b' into the sandbox failed: "
                             "the file would exceed the 26214400-byte limit");
  assert_int_equal(count_names(directory), 0);
  free(bytes);
}

OCTOBER_TEST(a_chunk_of_more_than_4_mebibytes_is_rejected) {
  struct job *job = server->job;
  unsigned char *bytes = make_bytes(4 * MIB + 1);
  char *content = encoded(bytes, 4 * MIB + 1);
  const struct october_answer *answer = october_run(
      server, &(struct october_step){
                  .kind = "writeBytes", .path = kind_rows_path(job, "a"), .content = content});
  october_expect(server, answer, 1, "a chunk exceeds the 4194304 bytes one step may carry", NULL);
  assert_int_equal(count_names(kind_rows_directory(job)), 0);
  free(content);
  free(bytes);
}

/* --- places ----------------------------------------------------------------------------------- */

static void expect_error(struct october_server *server, const char *error, const char *part) {
  if (error == NULL || strncmp(error, "writing '", 9) != 0 || strstr(error, part) == NULL)
    job_fail(server->job, "the upload says `%s`", error == NULL ? "(nothing)" : error);
}

/* The temporary name is never used again: a failed upload leaves nothing under it. */
OCTOBER_TEST(an_upload_that_fails_leaves_nothing) {
  struct job *job = server->job;
  const char *directory = kind_rows_directory(job);
  assert_int_equal(mkdir(kind_rows_path(job, "taken"), 0755), 0);
  kind_rows_file(job, "file", "x");
  unsigned char *bytes = make_bytes(5 * MIB);
  expect_error(server, october_upload(server, directory, "taken", bytes, 5 * MIB, true), "");
  expect_error(server, october_upload(server, directory, "taken", bytes, 5, true), "");
  expect_error(server, october_upload(server, kind_rows_path(job, "file"), "a", bytes, 5, true),
               "");
  assert_int_equal(count_names(directory), 2);
  free(bytes);
}
