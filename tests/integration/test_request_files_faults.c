/* `agent --ipc` with unusual files in its directory. In these cases the script that the agent
   replaces fails. */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "tests/support/as_user.h"
#include "tests/support/proc.h"
#include "tests/support/sidecar.h"
#include "tests/test.h"

/* Another request must be answered meanwhile. */
static void expect_service(struct sidecar *sidecar, const char *id) {
  sidecar_request(sidecar, id, "{'command':'echo served'}");
  sidecar_expect(sidecar, id, 0, "served", "");
}

/* --- requests that are not whole -------------------------------------------------------------- */

/* The runner creates the file first, and writes it later. */
static bool is_answered_whole(struct sidecar *sidecar, const char *id) {
  static const char text[] = "{\"command\":\"echo whole\"}";
  int fd =
      open(sidecar_path(sidecar, sidecar_request_name(id)), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  assert_true(fd >= 0);
  expect_service(sidecar, formatted("%s-2", id));
  bool is_claimed = sidecar_has(sidecar, sidecar_claim_name(id));
  assert_int_equal(write(fd, text, 10), 10);
  expect_service(sidecar, formatted("%s-3", id));
  is_claimed |= sidecar_has(sidecar, sidecar_claim_name(id));
  assert_int_equal(write(fd, text + 10, strlen(text) - 10), strlen(text) - 10);
  close(fd);
  const cJSON *out = cJSON_GetObjectItem(sidecar_result(sidecar, id), "stdout");
  return !is_claimed && strcmp(cJSON_GetStringValue(out), "whole") == 0;
}

SIDECAR_TEST(the_agent_waits_until_a_request_is_complete) {
  enum { INCOMPLETE_MS = 5000 }; /* it is answered then, as the next test says */
  sidecar_start(sidecar, NULL);
  int64_t begin_ms = wait_now_ms();
  for (int i = 0; !is_answered_whole(sidecar, formatted("%d", i)); i++) {
    assert_true(wait_now_ms() - begin_ms >= INCOMPLETE_MS);
    begin_ms = wait_now_ms();
  }
}

SIDECAR_TEST(an_incomplete_request_is_answered_after_5_s) {
  sidecar_start(sidecar, NULL);
  int64_t begin_ms = wait_now_ms();
  sidecar_write(sidecar, sidecar_request_name("0"), "", 0);
  sidecar_request(sidecar, "1", "{'command':'touch ");
  sidecar_expect(sidecar, "0", 125, "", "tool-executor: request is not valid JSON: it is empty");
  sidecar_expect(sidecar, "1", 125, "",
                 "tool-executor: request is not valid JSON: it ends too early, after 18 bytes");
  assert_true(wait_now_ms() - begin_ms >= 5000);
}

/* The writer has the file open, and might be rewriting it. */
SIDECAR_TEST(invalid_json_is_answered_even_if_the_file_stays_open) {
  sidecar_start(sidecar, NULL);
  int fd =
      open(sidecar_path(sidecar, sidecar_request_name("1")), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  assert_int_equal(write(fd, "nonsense", 8), 8);
  sidecar_expect(sidecar, "1", 125, "",
                 "tool-executor: request is not valid JSON: broken at byte 0");
  close(fd);
}

SIDECAR_TEST(a_request_that_is_too_long_is_rejected) {
  enum { LENGTH = 8 * 1024 * 1024 + 1 };
  static const char request[] = "{\"command\":\"echo x\"}";
  char *text = malloc(LENGTH);
  assert_non_null(text);
  memset(text, ' ', LENGTH);
  memcpy(text + LENGTH - (sizeof request - 1), request, sizeof request - 1);
  sidecar_start(sidecar, NULL);
  sidecar_write(sidecar, sidecar_request_name("1"), text, LENGTH);
  sidecar_write(sidecar, sidecar_request_name("2"), text + 1, LENGTH - 1);
  free(text);
  sidecar_expect(sidecar, "1", 125, "", "tool-executor: request is longer than 8388608 bytes");
  sidecar_expect(sidecar, "2", 0, "x", "");
}

/* inotify does not report a hard link as a written file. */
SIDECAR_TEST(a_request_that_appears_as_a_hard_link_is_found) {
  sidecar_start(sidecar, NULL);
  sidecar_write(sidecar, "tools/other", quoted("{'command':'echo x'}"), 20);
  assert_int_equal(
      link(sidecar_path(sidecar, "tools/other"), sidecar_path(sidecar, sidecar_request_name("1"))),
      0);
  sidecar_expect(sidecar, "1", 0, "x", "");
}

/* --- requests that are no files --------------------------------------------------------------- */

SIDECAR_TEST(a_request_that_is_not_a_regular_file_is_ignored_and_logged_once) {
  tree_make(sidecar->tree, "victim={} tools/ tools/exec-request-f.json| tools/exec-request-d.json/ "
                           "tools/exec-request-l.json>../victim tools/exec-request-n.json>none");
  sidecar_start(sidecar, NULL);
  expect_service(sidecar, "1");
  tree_make(sidecar->tree, "tools/exec-request-g.json|"); /* the script hangs forever at a FIFO */
  expect_service(sidecar, "2");
  agent_process_wait_log(sidecar->agent, "[g] is ignored: it is a FIFO");
  assert_int_equal(agent_process_count_log(sidecar->agent, "[f] is ignored: it is a FIFO"), 1);
  assert_int_equal(agent_process_count_log(sidecar->agent, "[d] is ignored: it is a directory"), 1);
  assert_int_equal(agent_process_count_log(sidecar->agent, "is ignored: it is a symbolic link"), 2);
  assert_false(sidecar_has(sidecar, sidecar_claim_name("l")));
  /* A regular file that replaces it is a request. */
  sidecar_request_whole(sidecar, "f", "{'command':'echo now'}");
  sidecar_expect(sidecar, "f", 0, "now", "");
  assert_int_equal(agent_process_count_log(sidecar->agent, "[g] is ignored"), 1);
  sidecar_write(sidecar, "done", "done", 4);
  assert_int_equal(agent_process_wait(sidecar->agent, WAIT_BOUND_MS), 0);
}

SIDECAR_TEST(a_request_with_an_invalid_name_is_ignored) {
  sidecar_start(sidecar, NULL);
  sidecar_request(sidecar, "\xFF", "{'command':'true'}");
  sidecar_request(sidecar, "a\nb", "{'command':'true'}");
  sidecar_request(sidecar, "", "{'command':'true'}");
  expect_service(sidecar, "a b \xC3\xA4");
  char longest[238];
  memset(longest, 'x', 237);
  longest[237] = '\0';
  expect_service(sidecar, longest);
  agent_process_wait_log(sidecar->agent, "[\\xff] is ignored: its name is no id");
  agent_process_wait_log(sidecar->agent, "[a\\x0ab] is ignored: its name is no id");
  agent_process_wait_log(sidecar->agent, "[] is ignored: its name is no id");
}

/* More requests than a scan handles in one turn of the loop. */
SIDECAR_TEST(the_agent_forgets_requests_that_vanish) {
  enum { REQUESTS = 1500 };
  sidecar_start(sidecar, NULL);
  for (int i = 0; i < REQUESTS; i++)
    sidecar_request(sidecar, formatted("%d", i), "{");
  expect_service(sidecar, "served");
  sidecar_delete(sidecar, "served");
  assert_int_equal(rename(sidecar_path(sidecar, "tools"), sidecar_path(sidecar, "before")), 0);
  sidecar_wait_known(sidecar, 0);
}

static int make_unreadable(void *context, struct error *error) {
  (void)error;
  int fd =
      open(sidecar_path(context, sidecar_request_name("1")), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  return fd >= 0 && write(fd, "{}", 2) == 2 ? 0 : -1;
}

/* Another user of the pod, for example, writes such a request. */
SIDECAR_TEST(an_unreadable_request_is_logged_and_read_later) {
  struct error error;
  assert_int_equal(chmod(sidecar->path, 0777), 0);
  sidecar_start(sidecar, &(struct agent_setup){.uid = NOBODY});
  assert_int_equal(make_unreadable(sidecar, &error), 0);
  agent_process_wait_log(sidecar->agent, "[1] cannot be read: Permission denied");
  assert_int_equal(chmod(sidecar_path(sidecar, sidecar_request_name("1")), 0644), 0);
  sidecar_expect(sidecar, "1", 125, "",
                 "tool-executor: command: expected a non-empty string, got nothing");
}

SIDECAR_TEST(the_agent_does_not_touch_files_of_others) {
  tree_make(sidecar->tree,
            "tools/ tools/mcp-tools.json=[] tools/mcp-request-1.json=x tools/.agent=x "
            "tools/exec-result-1718100000000000001.json=bus tools/.claim-script/ "
            "tools/exec-request-1.json.tmp={} tools/exec-result-2.json.tmp=half");
  sidecar_start(sidecar, NULL);
  expect_service(sidecar, "1");
  sidecar_delete(sidecar, "1");
  sidecar_wait_gone(sidecar, sidecar_claim_name("1"));
  assert_int_equal(tree_count(sidecar->tree, "tools"), 7);
}

/* --- while all executions are busy ------------------------------------------------------------ */

SIDECAR_TEST(requests_that_cannot_run_do_not_wait_for_an_execution) {
  static const char *const arguments[] = {"--concurrency=1", NULL};
  sidecar_start(sidecar, &(struct agent_setup){.arguments = arguments});
  sidecar_request(sidecar, "busy", "{'command':'exec sleep 600.070','timeout':120}");
  assert_true(proc_wait_for("sleep 600.070", WAIT_BOUND_MS) > 0);
  sidecar_request(sidecar, "runs", "{'command':'echo first'}");
  sidecar_request(sidecar, "invalid", "{'command':5}");
  sidecar_expect(sidecar, "invalid", 125, "",
                 "tool-executor: command: expected a string, got a number");
  sidecar_request(sidecar, "short", "{'command':'touch ");
  sidecar_expect(sidecar, "short", 125, "",
                 "tool-executor: request is not valid JSON: it ends too early, after 18 bytes");
  tree_make(sidecar->tree, "tools/exec-request-f.json|");
  agent_process_wait_log(sidecar->agent, "[f] is ignored: it is a FIFO");
  assert_false(sidecar_has(sidecar, sidecar_claim_name("runs")));
  assert_true(proc_find("sleep 600.070") > 0);
  /* The request that runs is the one that is there then. */
  sidecar_request_whole(sidecar, "runs", "{'command':'echo second'}");
  assert_int_equal(unlink(sidecar_path(sidecar, sidecar_request_name("busy"))), 0);
  sidecar_expect(sidecar, "runs", 0, "second", "");
}

/* --- results ---------------------------------------------------------------------------------- */

/* A script opens its `.tmp` with `>`, which follows links. */
SIDECAR_TEST(a_result_is_not_written_through_a_link) {
  tree_make(sidecar->tree, "victim=old tools/ tools/exec-result-1.json>../victim "
                           "tools/exec-result-1.json.tmp>../victim");
  sidecar_start(sidecar, NULL);
  sidecar_request(sidecar, "1", "{'command':'echo x'}");
  struct stat file;
  do
    assert_int_equal(lstat(sidecar_path(sidecar, sidecar_result_name("1")), &file), 0);
  while (S_ISLNK(file.st_mode));
  sidecar_expect(sidecar, "1", 0, "x", "");
  tree_expect(sidecar->tree, "victim", "old", 0644);
}

static void expect_cut(const cJSON *result, const char *field, size_t length) {
  static const char more[] = "...(truncated)";
  const char *text = cJSON_GetObjectItem(result, field)->valuestring;
  assert_int_equal(strlen(text), length + sizeof more - 1);
  assert_string_equal(text + length, more);
}

/* Twice 50 MB, far more than the agent may use. */
SIDECAR_TEST(output_is_cut_while_it_arrives) {
  enum { LIMIT = 51200, RSS_MAX_KIB = 10 * 1024 };
  sidecar_start(sidecar, NULL);
  sidecar_request(sidecar, "1",
                  "{'command':'head -c 50000000 /dev/zero | tr `\\\\0` a & "
                  "head -c 50000000 /dev/zero | tr `\\\\0` b >&2; wait'}");
  const cJSON *result = sidecar_result(sidecar, "1");
  expect_cut(result, "stdout", LIMIT);
  expect_cut(result, "stderr", LIMIT);
  long peak = proc_status_kib(agent_process_pid(sidecar->agent), "VmHWM");
  print_message("resident: %ld KiB at most\n", peak);
  if (agent_process_is_shipped())
    assert_true(peak < RSS_MAX_KIB);
}

/* Characters of three bytes; more text than the script's jq takes as an argument. */
SIDECAR_TEST(output_is_cut_between_characters) {
  sidecar_start(sidecar, NULL);
  sidecar_request(sidecar, "1", "{'command':'yes \xE2\x82\xAC | head -60000 | tr -d `\\\\n`'}");
  expect_cut(sidecar_result(sidecar, "1"), "stdout", 51198);
  sidecar_request(sidecar, "2", "{'command':'yes x | head -51200 | tr -d `\\\\n`; echo; echo'}");
  const cJSON *result = sidecar_result(sidecar, "2");
  assert_int_equal(strlen(cJSON_GetObjectItem(result, "stdout")->valuestring), 51200);
}

SIDECAR_TEST(invalid_utf8_is_replaced_and_nul_is_dropped) {
  sidecar_start(sidecar, NULL);
  sidecar_request(sidecar, "1", "{'command':'printf `a\\\\0b\\\\377c\\\\r\\\\n\\\\n`'}");
  sidecar_expect(sidecar, "1", 0,
                 "ab\xEF\xBF\xBD"
                 "c\r",
                 "");
}

/* The file system of the directory has 64 KiB. */
SIDECAR_TEST(a_full_file_system_shortens_or_delays_a_result) {
  sidecar_mount(sidecar, "size=64k");
  sidecar_start(sidecar, NULL);
  sidecar_request(sidecar, "1", "{'command':'yes | head -c 51000; yes | head -c 51000 >&2'}");
  expect_cut(sidecar_result(sidecar, "1"), "stdout", 4096);
  agent_process_wait_log(sidecar->agent, "[1]: the result is cut: No space left on device");
  sidecar_request(
      sidecar, "2",
      formatted("{'command':'echo x; dd if=/dev/zero of=%s/full bs=4096'}", sidecar->path));
  agent_process_wait_log(sidecar->agent, "[2]: the result cannot be written: ");
  assert_false(sidecar_has(sidecar, sidecar_result_name("2")));
  assert_int_equal(unlink(sidecar_path(sidecar, "full")), 0);
  sidecar_expect(sidecar, "2", 1, "x", NULL);
}

static bool has_result_after_event(void *context) {
  const struct sidecar *sidecar = context;
  sidecar_write(sidecar, "tools/busy", "", 0);
  return sidecar_has(sidecar, sidecar_result_name("1"));
}

SIDECAR_TEST(events_do_not_delay_a_result_that_waits_for_space) {
  sidecar_mount(sidecar, "size=64k");
  sidecar_start(sidecar, NULL);
  sidecar_write(sidecar, "tools/busy", "", 0);
  sidecar_request(
      sidecar, "1",
      formatted("{'command':'echo x; dd if=/dev/zero of=%s/full bs=4096'}", sidecar->path));
  agent_process_wait_log(sidecar->agent, "[1]: the result cannot be written: ");
  assert_int_equal(unlink(sidecar_path(sidecar, "full")), 0);
  assert_true(wait_until(has_result_after_event, sidecar, WAIT_BOUND_MS));
}

struct expected_count {
  struct sidecar *sidecar;
  const char *text;
  int count;
};

static bool has_count(void *context) {
  const struct expected_count *expected = context;
  return agent_process_count_log(expected->sidecar->agent, expected->text) >= expected->count;
}

static void wait_for_count(struct sidecar *sidecar, const char *text, int count) {
  struct expected_count expected = {sidecar, text, count};
  assert_true(wait_until(has_count, &expected, WAIT_BOUND_MS));
}

/* Each claim is locked until its result is written, or is given up after 10 s. */
SIDECAR_TEST(results_that_cannot_be_written_hold_a_bounded_number_of_descriptors) {
  enum { REQUESTS = 120, LOCKED = 64, READ = 32, OTHERS = 8 };
  sidecar_start(sidecar, NULL);
  pid_t agent = agent_process_pid(sidecar->agent);
  expect_service(sidecar, "first");
  int before = proc_fd_count(agent);
  for (int i = 0; i < REQUESTS; i++) {
    const char *id = formatted("%d", i);
    assert_int_equal(mkdir(sidecar_path(sidecar, sidecar_result_name(id)), 0755), 0);
    sidecar_request(sidecar, id, "{'command':5}");
  }
  wait_for_count(sidecar, "is lost: ", 1);
  const char *log = agent_process_log(sidecar->agent), *lost = strstr(log, "is lost: ");
  int unwritten = 0;
  for (; (log = strstr(log, "cannot be written: ")) != NULL && log < lost; log++)
    unwritten++;
  assert_in_range(unwritten, LOCKED, LOCKED + READ);
  wait_for_count(sidecar, "is lost: ", REQUESTS);
  expect_service(sidecar, "served");
  assert_in_range(proc_fd_count(agent), before, before + OTHERS);
  assert_int_equal(unlink(sidecar_path(sidecar, sidecar_request_name("0"))), 0);
  sidecar_wait_gone(sidecar, sidecar_claim_name("0"));
  /* Nobody has answered, so the next agent does. */
  sidecar_kill(sidecar);
  assert_int_equal(rmdir(sidecar_path(sidecar, sidecar_result_name("1"))), 0);
  sidecar_start(sidecar, NULL);
  sidecar_expect(sidecar, "1", 125, "", NULL);
}

/* --- the directory ---------------------------------------------------------------------------- */

SIDECAR_TEST(the_agent_makes_a_deleted_directory_again) {
  sidecar_start(sidecar, NULL);
  expect_service(sidecar, "1");
  assert_int_equal(rename(sidecar_path(sidecar, "tools"), sidecar_path(sidecar, "before")), 0);
  sidecar_wait_for(sidecar, "tools");
  expect_service(sidecar, "2");
  sidecar_request(sidecar, "long", "{'command':'sleep 600.075'}");
  assert_true(proc_wait_for("sleep 600.075", WAIT_BOUND_MS) > 0);
  const char *remove[] = {"rm", "-rf", sidecar_path(sidecar, "tools"), NULL};
  pid_t pid = fork();
  if (pid == 0) {
    execvp(remove[0], (char **)(uintptr_t)remove);
    _exit(1);
  }
  assert_int_equal(waitpid(pid, NULL, 0), pid);
  assert_true(proc_wait_gone("sleep 600.075", WAIT_BOUND_MS)); /* because its request is gone */
  sidecar_wait_for(sidecar, "tools");
  expect_service(sidecar, "3");
}

SIDECAR_TEST(a_missing_directory_ends_the_agent) {
  sidecar->agent = sidecar_spawn(
      sidecar, &(struct agent_setup){.arguments = (const char *[]){"--verbose", NULL}});
  agent_process_wait_log(sidecar->agent, "started");
  sidecar_kill(sidecar);
  (void)snprintf(sidecar->path + strlen(sidecar->path), 6, "/none");
  sidecar->agent = sidecar_spawn(sidecar, NULL);
  assert_int_equal(agent_process_wait(sidecar->agent, WAIT_BOUND_MS), 3);
  agent_process_wait_log(sidecar->agent, "cannot open the directory ");
  agent_process_wait_log(sidecar->agent, "/none: No such file or directory");
}

SIDECAR_TEST(a_directory_that_cannot_be_made_ends_the_agent) {
  assert_int_equal(chmod(sidecar->path, 0755), 0);
  sidecar->agent = sidecar_spawn(sidecar, &(struct agent_setup){.uid = NOBODY});
  assert_int_equal(agent_process_wait(sidecar->agent, WAIT_BOUND_MS), 3);
  agent_process_wait_log(sidecar->agent, "/tools: Permission denied");
}

SIDECAR_TEST(a_temporary_lack_of_descriptors_loses_no_request) {
  sidecar_start(sidecar, NULL);
  struct rlimit before;
  pid_t agent = agent_process_pid(sidecar->agent);
  assert_int_equal(prlimit(agent, RLIMIT_NOFILE, NULL, &before), 0);
  const struct rlimit standard = {.rlim_cur = 3, .rlim_max = before.rlim_max};
  assert_int_equal(prlimit(agent, RLIMIT_NOFILE, &standard, NULL), 0);
  sidecar_request(sidecar, "1", "{'command':'echo x'}");
  agent_process_wait_log(sidecar->agent, "[1] cannot be read: ");
  assert_int_equal(prlimit(agent, RLIMIT_NOFILE, &before, NULL), 0);
  sidecar_expect(sidecar, "1", 0, "x", "");
}

/* The script mistakes this for an existing claim, and never logs it. */
SIDECAR_TEST(a_refused_claim_is_logged_once_and_tried_again) {
  tree_make_directory(sidecar->tree, "tools", 0755);
  assert_int_equal(chmod(sidecar->path, 0755), 0);
  sidecar_request(sidecar, "1", "{'command':'echo x'}");
  sidecar_start(sidecar, &(struct agent_setup){.uid = NOBODY});
  agent_process_wait_log(sidecar->agent, "[1] cannot be claimed: Permission denied");
  assert_int_equal(chmod(sidecar_path(sidecar, "tools"), 0777), 0);
  sidecar_expect(sidecar, "1", 0, "x", "");
  assert_int_equal(agent_process_count_log(sidecar->agent, "cannot be claimed"), 1);
}

/* The claim of a cancelled request that could not be removed. */
SIDECAR_TEST(a_leftover_claim_does_not_block_a_new_request) {
  static const char *const arguments[] = {"--concurrency=1", NULL};
  assert_int_equal(chmod(sidecar->path, 0777), 0);
  sidecar_start(sidecar, &(struct agent_setup){.uid = NOBODY, .arguments = arguments});
  sidecar_request(sidecar, "1", "{'command':'exec sleep 600.089'}");
  assert_true(proc_wait_for("sleep 600.089", WAIT_BOUND_MS) > 0);
  sidecar_request(sidecar, "2", "{'command':'true'}"); /* runs after the other one */
  const char *tools = sidecar_path(sidecar, "tools");
  assert_int_equal(chmod(tools, 0555), 0);
  assert_int_equal(unlink(sidecar_path(sidecar, sidecar_request_name("1"))), 0);
  agent_process_wait_log(sidecar->agent, "[2] cannot be claimed: Permission denied");
  assert_true(sidecar_has(sidecar, sidecar_claim_name("1")));
  sidecar_request(sidecar, "1", "{'command':'echo new'}");
  assert_int_equal(chmod(tools, 0777), 0);
  sidecar_expect(sidecar, "1", 0, "new", "");
}

/* --- system calls that fail ------------------------------------------------------------------- */

struct refused_call {
  int number;
  int error;
};

static void refuse_call(const void *context) {
  const struct refused_call *refused = context;
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)refused->number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)refused->error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(AGENT_PROCESS_NO_START);
}

static void expect_service_without(struct sidecar *sidecar, const struct refused_call *refused) {
  sidecar_start(sidecar, &(struct agent_setup){.prepare = refuse_call, .prepare_context = refused});
  const cJSON *result = sidecar_dispatch(sidecar, "1", "{'command':'echo served'}", WAIT_BOUND_MS);
  assert_non_null(result);
  assert_string_equal(cJSON_GetObjectItem(result, "stdout")->valuestring, "served");
  sidecar_wait_gone(sidecar, sidecar_claim_name("1"));
}

/* For example, other pods of the same user have used up the inotify instances. */
SIDECAR_TEST(the_agent_polls_without_inotify) {
  expect_service_without(sidecar, &(struct refused_call){SYS_inotify_init1, EMFILE});
  assert_int_equal(agent_process_count_log(sidecar->agent, "inotify: "), 1);
  sidecar_request(sidecar, "long", "{'command':'sleep 600.076'}");
  assert_true(proc_wait_for("sleep 600.076", WAIT_BOUND_MS) > 0);
  assert_int_equal(unlink(sidecar_path(sidecar, sidecar_request_name("long"))), 0);
  assert_true(proc_wait_gone("sleep 600.076", WAIT_BOUND_MS));
  sidecar_write(sidecar, "done", "", 0);
  assert_int_equal(agent_process_wait(sidecar->agent, WAIT_BOUND_MS), 0);
}

/* The agent notices the deletion only before it writes the result. */
SIDECAR_TEST(the_agent_does_not_answer_deleted_requests_without_inotify) {
  sidecar_start(sidecar, &(struct agent_setup){
                             .prepare = refuse_call,
                             .prepare_context = &(struct refused_call){SYS_inotify_init1, EMFILE}});
  sidecar_request(
      sidecar, "1",
      formatted("{'command':'rm %s'}", sidecar_path(sidecar, sidecar_request_name("1"))));
  sidecar_wait_gone(sidecar, sidecar_request_name("1"));
  sidecar_wait_gone(sidecar, sidecar_claim_name("1"));
  assert_false(sidecar_has(sidecar, sidecar_result_name("1")));
}

SIDECAR_TEST(the_agent_polls_without_inotify_watches) {
  expect_service_without(sidecar, &(struct refused_call){SYS_inotify_add_watch, ENOSPC});
}

/* The reader may be another user; a private file is not a result. */
SIDECAR_TEST(a_result_that_others_cannot_read_is_not_written) {
  sidecar_start(
      sidecar, &(struct agent_setup){.prepare = refuse_call,
                                     .prepare_context = &(struct refused_call){SYS_fchmod, EPERM}});
  sidecar_request(sidecar, "1", "{'command':'echo served'}");
  agent_process_wait_log(sidecar->agent, "Operation not permitted");
  assert_false(sidecar_has(sidecar, sidecar_result_name("1")));
}

SIDECAR_TEST(the_agent_claims_requests_without_renameat2) {
  expect_service_without(sidecar, &(struct refused_call){SYS_renameat2, EINVAL});
}

TEST_OVERLAP(6)
