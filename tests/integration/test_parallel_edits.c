/* Calls and steps that change the same file concurrently: the file gets each change and keeps its
   owner. */

#include <sys/file.h>

#include "tests/support/directory.h"
#include "tests/support/job.h"
#include "tests/support/kind_rows.h"
#include "tests/support/mcp_client.h"
#include "tests/support/stdio_host.h"

enum { ROUNDS = 20, AT_ONCE = 10, LINES = ROUNDS * AT_ONCE };

/* Makes a file with one line for each edit of each writer. */
static void write_lines(const struct directory *directory, const char *name, const char *writers) {
  FILE *file = fopen(directory_path(directory, name), "we");
  assert_non_null(file);
  for (int i = 0; i < LINES; i++)
    for (const char *writer = writers; *writer != '\0'; writer++)
      fprintf(file, "%c %03d open\n", *writer, i);
  assert_int_equal(fclose(file), 0);
}

static int count_lines(const struct directory *directory, const char *name, const char *part) {
  char line[256];
  int count = 0;
  FILE *file = fopen(directory_path(directory, name), "re");
  assert_non_null(file);
  while (fgets(line, sizeof line, file) != NULL)
    count += strstr(line, part) != NULL;
  fclose(file);
  return count;
}

static const char *edit_of(const char *path, char writer, int line) {
  return formatted(
      "'path':'%s','edits':[{'old_string':'%c %03d open','new_string':'%c %03d done'}]", path,
      writer, line, writer, line);
}

static void expect_success(struct mcp_client *client, int id) {
  cJSON *answer = mcp_client_answer(client, id);
  const cJSON *result = cJSON_GetObjectItem(answer, "result");
  if (!cJSON_IsFalse(cJSON_GetObjectItem(result, "isError")))
    fail_msg("call %d: %s", id, cJSON_PrintUnformatted(answer));
  cJSON_Delete(answer);
}

/* Makes all edits of a writer, AT_ONCE at a time, under these names of the file in turn. */
static void edit_lines(struct mcp_client *client, char writer, const char *const *paths,
                       size_t count) {
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = round * AT_ONCE; i < (round + 1) * AT_ONCE; i++)
      mcp_client_call_tool(client, i + 1, "edit_file",
                           edit_of(paths[(size_t)i % count], writer, i));
    for (int i = round * AT_ONCE; i < (round + 1) * AT_ONCE; i++)
      expect_success(client, i + 1);
  }
}

MCP_TEST(edits_under_different_names_of_a_file_are_all_applied) {
  write_lines(&client->directory, "file", "a");
  assert_int_equal(symlink("file", directory_path(&client->directory, "link")), 0);
  assert_int_equal(symlink(".", directory_path(&client->directory, "here")), 0);
  const char *const paths[] = {"file", "link", "here/file", "here/here/link",
                               directory_path(&client->directory, "file")};
  edit_lines(client, 'a', paths, sizeof paths / sizeof *paths);
  assert_int_equal(count_lines(&client->directory, "file", "done"), LINES);
}

/* One agent speaks MCP, two read lines. */
MCP_TEST(agents_that_edit_one_file_lose_no_edit) {
  static const char *const arguments[] = {"--stdio", NULL};
  const struct stdio_host_setup setup = {.arguments = arguments,
                                         .directory = client->directory.path};
  struct stdio_host *hosts[] = {stdio_host_start(&setup), stdio_host_start(&setup)};
  write_lines(&client->directory, "file", "abc");
  for (int i = 0; i < LINES; i++)
    for (int host = 0; host < 2; host++)
      stdio_host_send(hosts[host], formatted("{'id':%d,'method':'edit_file','params':{%s}}\n", i,
                                             edit_of("file", host == 0 ? 'b' : 'c', i)));
  edit_lines(client, 'a', (const char *const[]){"file"}, 1);
  for (int host = 0; host < 2; host++) {
    for (int i = 0; i < LINES; i++) {
      const char *line = stdio_host_line(hosts[host]);
      if (line == NULL || strstr(line, "\"result\"") == NULL)
        fail_msg("%s", line != NULL ? line : stdio_host_log(hosts[host]));
    }
    stdio_host_free(hosts[host]);
  }
  assert_int_equal(count_lines(&client->directory, "file", "done"), 3 * LINES);
}

/* Each call needs the content that the call before it has written. */
MCP_TEST(calls_that_change_the_same_file_run_in_order) {
  int id = 0;
  for (int round = 0; round < ROUNDS; round++) {
    char name[32];
    (void)snprintf(name, sizeof name, "file-%d", round);
    mcp_client_call_tool(client, ++id, "write_file", formatted("'path':'%s','content':'0'", name));
    for (int i = 1; i < AT_ONCE; i++)
      mcp_client_call_tool(
          client, ++id, "edit_file",
          formatted("'path':'%s%s','edits':[{'old_string':'%d','new_string':'%d'}]",
                    i % 2 == 0 ? "./" : "", name, i - 1, i));
    for (int i = AT_ONCE - 1; i >= 0; i--)
      expect_success(client, id - i);
    assert_int_equal(count_lines(&client->directory, name, "9"), 1);
  }
}

MCP_TEST(a_cancelled_call_lets_the_next_one_of_its_file_run) {
  for (int id = 1; id <= 8; id++)
    mcp_client_call_tool(client, id, "write_file",
                         formatted("'path':'file','content':'%d%07000d'", id, 0));
  for (int id = 1; id < 8; id++)
    mcp_client_send(client, formatted("{'jsonrpc':'2.0','method':'notifications/cancelled',"
                                      "'params':{'requestId':%d}}",
                                      id));
  expect_success(client, 8);
  assert_int_equal(count_lines(&client->directory, "file", "8000"), 1);
}

/* A program that can read a file can lock it forever. */
MCP_TEST(a_lock_of_another_program_does_not_block_an_edit) {
  write_lines(&client->directory, "file", "a");
  int fd = open(directory_path(&client->directory, "file"), O_RDONLY | O_CLOEXEC);
  assert_int_equal(flock(fd, LOCK_EX), 0);
  mcp_client_call_tool(client, 1, "edit_file", edit_of("file", 'a', 0));
  expect_success(client, 1);
  close(fd);
  assert_int_equal(count_lines(&client->directory, "file", "done"), 1);
}

static bool never(void *context) {
  (void)context;
  return false;
}

/* Each call needs the content that the call before it has written. All of them wait for the lock of
   another program, which ends before they give up. */
MCP_TEST(calls_that_wait_for_a_lock_run_in_order_under_any_name) {
  static const char *const names[] = {"file", "link"};
  const char *path = directory_path(&client->directory, "file");
  int id = 0;
  assert_int_equal(symlink("file", directory_path(&client->directory, "link")), 0);
  for (int round = 0; round < 4; round++) {
    FILE *file = fopen(path, "we");
    assert_true(file != NULL && fputs("0", file) >= 0 && fclose(file) == 0);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    for (int i = 0; i < 4; i++)
      mcp_client_call_tool(client, ++id, "edit_file",
                           formatted("'path':'%s','edits':[{'old_string':'%d','new_string':'%d'}]",
                                     names[i % 2], i, i + 1));
    (void)wait_until(never, NULL, 800);
    close(fd);
    for (int i = 3; i >= 0; i--)
      expect_success(client, id - i);
    assert_int_equal(count_lines(&client->directory, "file", "4"), 1);
  }
}

/* --- the owner -------------------------------------------------------------------------------- */

enum { OWNER = 4321, MEMBER = 1234 };

static void make_shared(struct job *job, const char *name) {
  const char *path = kind_rows_path(job, name);
  kind_rows_file(job, name, "old");
  assert_int_equal(chown(path, OWNER, MEMBER), 0);
  assert_int_equal(chmod(path, 0660), 0);
}

static void expect_shared(struct job *job, const char *name, const char *content) {
  struct stat file;
  assert_string_equal(kind_rows_content(job, name), content);
  assert_int_equal(stat(kind_rows_path(job, name), &file), 0);
  assert_int_equal(file.st_uid, OWNER);
  assert_int_equal(file.st_gid, MEMBER);
  assert_int_equal(file.st_mode & 07777, 0660);
}

/* The agent is a member of the file's group. */
JOB_TEST_NO_AGENT(a_file_changed_by_a_group_member_keeps_its_owner) {
  static const struct kind_row rows[] = {
      {"'kind':'editFile','path':'edited','edits':[{'oldString':'old','newString':'newer'}]", 0,
       "Edited edited (1 change)\n\n@ line 1:\n- old\n+ newer\n", NULL},
      {"'kind':'writeFile','path':'written','content':'n'", 0, NULL, NULL},
      {"'kind':'writeBytes','path':'part','content':'bmV3','renameTo':'moved'", 0, NULL, NULL},
      {"'kind':'writeFile','path':'closed/file','content':'new'", 0, NULL, NULL},
  };
  static const char *const names[] = {"edited", "written", "moved", "closed/file"};
  static const char *const contents[] = {"newer", "n", "new", "new"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    make_shared(job, names[i]);
  assert_int_equal(chmod(kind_rows_directory(job), 0777), 0);
  assert_int_equal(link(kind_rows_path(job, "edited"), kind_rows_path(job, "other name")), 0);
  job->setup.uid = MEMBER;
  job_start_agent(job, NULL);
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    expect_shared(job, names[i], contents[i]);
  expect_shared(job, "other name", "newer");
  assert_int_not_equal(access(kind_rows_path(job, "part"), F_OK), 0);
}

TEST_OVERLAP(4)
