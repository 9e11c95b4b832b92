/* File kinds in bounded memory: a huge directory is listed, and a small file is searched. */

#include <sys/mount.h>
#include <sys/resource.h>

#include "tests/support/injection.h"
#include "tests/support/job.h"
#include "tests/support/kind_rows.h"

/* The memory limit of the agent and of each of its children, in addition to the libraries. */
#define DATA_BYTES ((rlim_t)64 * 1024 * 1024)

enum { ENTRIES = 1000000 };

/* Makes a million names of one file. */
static void fill(struct job *job) {
  const char *path = kind_rows_path(job, "huge");
  assert_int_equal(mkdir(path, 0777), 0);
  assert_int_equal(mount("huge", path, "tmpfs", 0, "nr_inodes=1100000"), 0);
  const char *first = kind_rows_path(job, "huge/file");
  kind_rows_file(job, "huge/file", job_format(job, "%020000d", 0));
  char name[160];
  for (int i = 1; i < ENTRIES; i++) {
    (void)snprintf(name, sizeof name, "%s/name-%07d", path, i);
    if (link(first, name) != 0)
      fail_msg("link number %d failed", i);
  }
}

static void little_memory(const void *context) {
  (void)context;
  const struct rlimit limit = {DATA_BYTES, DATA_BYTES};
  assert_int_equal(setrlimit(RLIMIT_DATA, &limit), 0);
}

TEST_WITH_IF(agent_process_is_shipped(), struct job *job,
             a_million_entries_are_listed_in_bounded_memory, job_setup_server, job_teardown) {
  fill(job);
  job->setup.prepare = little_memory;
  job_start_agent(job, NULL);
  static const char *const orders[] = {"name", "size", "mtime"};
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
    const cJSON *step = kind_rows_step(
        job, job_format(job, "'kind':'listFiles','path':'huge','sortBy':'%s'", orders[i]));
    const cJSON *result = job_run_within(job, step, WAIT_BOUND_MS);
    assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 0);
    assert_string_equal(job_lines(job, step, "stderr"), "directory truncated at 1000 entries\n");
    const cJSON *entries = job_own(job, cJSON_Parse(job_text(result, "outputContent")));
    assert_int_equal(cJSON_GetArraySize(entries), 1000);
    assert_string_equal(job_text(cJSON_GetArrayItem(entries, 999), "path"),
                        kind_rows_path(job, "huge/name-0000999"));
  }
  const cJSON *step = kind_rows_step(job, "'kind':'directoryTree','path':'huge'");
  const cJSON *result = job_run_within(job, step, WAIT_BOUND_MS);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 0);
  const char *text = job_text(result, "outputContent");
  assert_memory_equal(text, "huge/\n├── file\n├── name-0000001\n", 37);
  static const char last[] =
      "\n└── name-0000999\n… [truncated at 1000 entries — narrow the root or lower "
      "max_depth]";
  assert_string_equal(text + strlen(text) - (sizeof last - 1), last);
  assert_string_equal(job_lines(job, step, "stderr"), "");

  /* The deadline ends the search. */
  step = kind_rows_step(job, "'kind':'grep','path':'huge','pattern':'x','headLimit':"
                             "2000000000,'timeoutSeconds':1");
  result = job_run_within(job, step, WAIT_BOUND_MS);
  job_expect_result(job, result, -1, "timed out after 1s", NULL);
  job_shut_down(job);
  assert_int_equal(umount2(kind_rows_path(job, "huge"), MNT_DETACH), 0);
}

TEST_WITH_IF(agent_process_is_shipped(), struct job *job,
             a_small_file_that_is_named_is_searched_in_little_memory, job_setup_server,
             job_teardown) {
  kind_rows_file(job, "small", "yes\n");
  job->setup.prepare = little_memory;
  job_start_agent(job, NULL);
  const cJSON *step = kind_rows_step(job, "'kind':'grep','path':'small','pattern':'y'");
  job_expect_result(job, job_run(job, step), 0, NULL,
                    "[{\"path\":\"small\",\"line\":1,\"text\":\"yes\",\"kind\":\"match\"}]");
}

TEST_GROUP(injection_begin_group, NULL)
