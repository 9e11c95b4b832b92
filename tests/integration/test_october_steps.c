/* The server of October drives the agent: each form of its steps, and how it reads the results.
   Uploads, output and searches have their own test programs. */

#include "tests/support/kind_rows.h"
#include "tests/support/october_server.h"
#include "tests/support/proxy.h"
#include "tests/test.h"

TEST_OVERLAP(8)

/* --- the model itself ------------------------------------------------------------------------- */

#define ID "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"

/* System.Text.Json of .NET 10 wrote this JSON from the record of the server. */
TEST(the_model_of_the_server_writes_the_json_of_the_server) {
  static const char *const script[] = {"-c", "echo \"a\" 'b' <c> & + ` \\ /", NULL};
  static const char *const env[] = {"ÄKEY", "v+", "B", "2", NULL};
  static const char *const none[] = {NULL}, *const globs[] = {"*.o", NULL};
  static const struct {
    struct october_step step;
    const char *json;
  } rows[] = {
      {{.id = ID, .kind = "shutdown"},
       "{'schemaVersion':2,'stepId':'" ID "','kind':'shutdown','timeoutSeconds':600,"
       "'withLineNumbers':false,'outputMode':'content','withSizes':false,'sortBy':'name',"
       "'searchHidden':false,'append':false}"},
      {{.id = ID,
        .command = "/bin/sh",
        .args = script,
        .working_directory = "/work",
        .env = env,
        .path = "😀é"},
       "{'schemaVersion':2,'stepId':'" ID "','kind':'run','command':'/bin/sh','args':['-c',"
       "'echo \\u0022a\\u0022 \\u0027b\\u0027 \\u003Cc\\u003E \\u0026 \\u002B \\u0060 \\\\ /'],"
       "'workingDirectory':'/work','env':{'\\u00C4KEY':'v\\u002B','B':'2'},'timeoutSeconds':600,"
       "'path':'\\uD83D\\uDE00\\u00E9','withLineNumbers':false,'outputMode':'content',"
       "'withSizes':false,'sortBy':'name','searchHidden':false,'append':false}"},
      {{.id = ID,
        .kind = "grep",
        .command = "c",
        .args = none,
        .working_directory = "/w",
        .env = none,
        .timeout_seconds = 90,
        .path = "p",
        .content = "",
        .max_depth = 1,
        .pattern = "pat",
        .glob = "*.cs",
        .head_limit = 200,
        .start_line = 3,
        .line_count = 4,
        .with_line_numbers = true,
        .context_before = 1,
        .context_after = 2,
        .output_mode = "filesWithMatches",
        .with_sizes = true,
        .sort_by = "mtime",
        .exclude_globs = globs,
        .search_hidden = true,
        .append = true,
        .rename_to = "r"},
       "{'schemaVersion':2,'stepId':'" ID "','kind':'grep','command':'c','args':[],"
       "'workingDirectory':'/w','env':{},'timeoutSeconds':90,'path':'p','content':'',"
       "'maxDepth':1,'pattern':'pat','glob':'*.cs','headLimit':200,'startLine':3,'lineCount':4,"
       "'withLineNumbers':true,'contextBefore':1,'contextAfter':2,"
       "'outputMode':'filesWithMatches','withSizes':true,'sortBy':'mtime','excludeGlobs':['*.o'],"
       "'searchHidden':true,'append':true,'renameTo':'r'}"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char *json = october_step_json(&rows[i].step);
    assert_string_equal(json, quoted(rows[i].json));
    free(json);
  }
}

/* --- versions --------------------------------------------------------------------------------- */

/* A server of version 1 only warns about agents of another version. */
OCTOBER_TEST(a_server_of_version_1_gets_no_advice) {
  server->window[1] = 1;
  october_run(server, &(struct october_step){.schema_version = 1, .command = "true"});
  october_run(server, &(struct october_step){.schema_version = 1, .kind_json = "99"});
  october_run(server,
              &(struct october_step){.schema_version = 1, .kind = "readFile", .path = "/no"});
  assert_int_equal(server->advices, 0);
}

/* --- kinds ------------------------------------------------------------------------------------ */

enum { KINDS = 8, SHUTDOWN = 1, FORMS = 5 };
static const char *const kind_names[KINDS] = {
    "run", "shutdown", "readFile", "writeFile", "listFiles", "grep", "directoryTree", "writeBytes"};

/* A kind in each JSON form: a name, a number, or digits. */
static const char *kind_form(struct job *job, int kind, int form) {
  const char *name = kind_names[kind];
  switch (form) {
  case 0:
    return job_format(job, "\"%s\"", name);
  case 1:
    return job_format(job, "\"%c%s\"", *name - 'a' + 'A', name + 1);
  case 2:
    return job_format(job, "\" %s  \"", name);
  case 3:
    return job_format(job, "%d", kind);
  default:
    return job_format(job, "\"%d\"", kind);
  }
}

/* One step that suits each kind. */
static const struct october_answer *run_kind(struct october_server *server, int kind,
                                             const char *json) {
  static const char *const paths[KINDS] = {NULL, NULL, "file", "text", ".", ".", ".", "bytes"};
  return october_run(server,
                     &(struct october_step){.kind_json = json,
                                            .command = "echo",
                                            .working_directory = kind_rows_directory(server->job),
                                            .path = paths[kind],
                                            .pattern = "needle",
                                            .content = "bmVl"});
}

OCTOBER_TEST(the_agent_accepts_each_form_of_each_kind) {
  struct job *job = server->job;
  static const char *const outputs[KINDS] = {"\n",   NULL,   "needle\n", NULL,
                                             "file", "file", "file",     NULL};
  kind_rows_file(job, "file", "needle\n");
  for (int kind = 0; kind < KINDS; kind++) {
    for (int form = 0; form < FORMS && kind != SHUTDOWN; form++) {
      const char *json = kind_form(job, kind, form);
      const struct october_answer *answer = run_kind(server, kind, json);
      if (answer->exit_code != 0 || (answer->output_content == NULL) != (outputs[kind] == NULL) ||
          (outputs[kind] != NULL && strstr(answer->output_content, outputs[kind]) == NULL))
        job_fail(job, "kind %s: exit %d, %s, %s", json, answer->exit_code, answer->error_message,
                 answer->output_content);
    }
  }
  assert_string_equal(kind_rows_content(job, "text"), "bmVl");
  assert_string_equal(kind_rows_content(job, "bytes"), "nee");
}

OCTOBER_TEST_NO_AGENT(the_agent_accepts_each_form_of_shutdown) {
  for (int form = 0; form < FORMS; form++) {
    october_start_agent(server, NULL);
    october_push(server,
                 &(struct october_step){.kind_json = kind_form(server->job, SHUTDOWN, form)});
    job_expect_exit(server->job, 0);
  }
}

/* The server shows this sentence to its model. */
OCTOBER_TEST(an_unknown_kind_gets_the_message_that_the_server_expects) {
  static const char *const kinds[] = {
      "'summonDragon'", "8",   "-1",    "null",        "true",   "false",   "5.5",      "''", "'8'",
      "'-1'",           "' '", "'0.5'", "99999999999", "'run,'", "'run x'", "'unknown'"};
  struct job *job = server->job;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    int version = i % 2 == 0 ? 2 : 7;
    char *json = job_json(job, "%s", kinds[i]);
    const struct october_answer *answer = october_run(
        server,
        &(struct october_step){.schema_version = version, .kind_json = json, .command = "touch"});
    if (answer->exit_code != -1 || answer->timed_out || answer->duration_seconds != 0 ||
        answer->output_content != NULL)
      job_fail(job, "kind %s: exit %d, %s", json, answer->exit_code, answer->error_message);
    october_expect(server, answer, -1,
                   job_format(job,
                              "This sandbox agent speaks wire protocol 1-2 and does not know the "
                              "step kind it was sent (schema version %d). Nothing was executed.",
                              version),
                   NULL);
  }
  october_expect(server, october_run(server, &(struct october_step){.command = "true"}), 0, NULL,
                 NULL);
}

/* --- the two other names ---------------------------------------------------------------------- */

OCTOBER_TEST(the_agent_accepts_each_form_of_an_output_mode) {
  static const struct {
    const char *json, *output;
  } rows[] = {
      {"'content'", "[{'path':'file','line':1,'text':'needle','kind':'match'}]"},
      {"'CONTENT'", "[{'path':'file','line':1,'text':'needle','kind':'match'}]"},
      {"'filesWithMatches'", "[{'path':'file'}]"},
      {"'FILESWITHMATCHES'", "[{'path':'file'}]"},
      {"1", "[{'path':'file'}]"},
      {"' 1 '", "[{'path':'file'}]"},
      {"'count'", "[{'path':'file','count':1}]"},
      {"2", "[{'path':'file','count':1}]"},
      {"3", "[{'path':'file','line':1,'text':'needle','kind':'match'}]"},
      {"-1", "[{'path':'file','line':1,'text':'needle','kind':'match'}]"},
      {"'json'", "[{'path':'file','line':1,'text':'needle','kind':'match'}]"},
      {"''", "[{'path':'file','line':1,'text':'needle','kind':'match'}]"},
      {"null", "[{'path':'file','line':1,'text':'needle','kind':'match'}]"},
      {"true", "[{'path':'file','line':1,'text':'needle','kind':'match'}]"},
      {"1.5", "[{'path':'file','line':1,'text':'needle','kind':'match'}]"},
  };
  struct job *job = server->job;
  kind_rows_file(job, "file", "needle\n");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const struct october_answer *answer = october_run(
        server, &(struct october_step){.kind = "grep",
                                       .output_mode_json = job_json(job, "%s", rows[i].json),
                                       .path = kind_rows_directory(job),
                                       .pattern = "needle"});
    october_expect(server, answer, 0, NULL, quoted(rows[i].output));
  }
}

OCTOBER_TEST(the_agent_accepts_each_form_of_a_sort_order) {
  static const struct {
    const char *json, *first;
  } rows[] = {{"'name'", "a"},   {"'size'", "z"}, {"' SIZE '", "z"}, {"1", "z"},
              {"'1'", "z"},      {"2", "m"},      {"'mtime'", "m"},  {"0", "a"},
              {"'random'", "a"}, {"7", "a"},      {"null", "a"},     {"false", "a"}};
  struct job *job = server->job;
  kind_rows_file(job, "a", "");
  kind_rows_file(job, "m", "");
  kind_rows_file(job, "z", "long\n");
  for (const char *name = "az"; *name != '\0'; name++)
    assert_int_equal(utimensat(AT_FDCWD, kind_rows_path(job, *name == 'a' ? "a" : "z"),
                               (struct timespec[]){{.tv_sec = 1}, {.tv_sec = 1}}, 0),
                     0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const struct october_answer *answer = october_run(
        server, &(struct october_step){.kind = "listFiles",
                                       .sort_by_json = job_json(job, "%s", rows[i].json),
                                       .path = kind_rows_directory(job)});
    assert_int_equal(answer->exit_code, 0);
    const char *first = job_format(job, "[{\"path\":\"%s\",", kind_rows_path(job, rows[i].first));
    if (strncmp(answer->output_content, first, strlen(first)) != 0)
      job_fail(job, "sortBy %s: %s", rows[i].json, answer->output_content);
  }
}

/* --- the contract of both agents -------------------------------------------------------------- */

OCTOBER_TEST(a_result_carries_its_last_lines) {
  for (int i = 0; i < 30; i++) {
    const struct october_answer *answer = october_run_script(server, "seq 1 150; echo VERDICT");
    struct october_section section = october_section_of(answer->output_content, &answer->output);
    assert_true(october_section_ends_with(&section, "VERDICT"));
    assert_string_equal(answer->output.text, answer->output_content);
    assert_true(answer->started == 1 && answer->completed == 1);
  }
}

/* The server no longer waits for the first result. */
OCTOBER_TEST(the_server_discards_a_stale_result) {
  const char *const args[] = {"stale", NULL};
  october_push(server, &(struct october_step){.command = "echo", .args = args});
  october_expect(server, october_run_script(server, "echo fresh"), 0, NULL, "fresh\n");
  assert_int_equal(server->stale_results, 1);
}

OCTOBER_TEST(the_server_learns_the_protocol_from_results) {
  server->window[0] = server->window[1] = 3;
  october_run(server, &(struct october_step){.command = "true"});
  assert_int_equal(server->advices, 1);
}

OCTOBER_TEST(a_shutdown_exits_with_0_and_leaves_no_keys_of_the_server) {
  october_run_script(server, "echo on");
  october_dispose(server);
  job_expect_keys(server->job, "committed", NULL);
}

OCTOBER_TEST(the_server_notices_a_killed_agent) {
  const char *const args[] = {"60", NULL};
  const char *id = october_push(server, &(struct october_step){.command = "sleep", .args = args});
  job_wait_length(server->job, "in", 0);
  assert_int_equal(kill(agent_process_pid(server->job->agent), SIGKILL), 0);
  assert_true(october_vanishes(server, id));
}

/* The network drops everything for three seconds while a step prints. */
OCTOBER_TEST_NO_AGENT(a_network_that_drops_for_three_seconds_loses_no_line) {
  struct job *job = server->job;
  struct proxy *proxy = proxy_start(redis_server_port(job->server), NULL);
  job_use_port(job, proxy_port(proxy));
  october_start_agent(server, NULL);
  const char *const args[] = {
      "-c", "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo $i; sleep 0.005; done", NULL};
  const char *id = october_push(server, &(struct october_step){.command = "sh", .args = args});
  job_wait_length(job, "in", 0);
  for (enum relay_role role = 0; role < RELAY_ROLES; role++)
    proxy_freeze(proxy, role);
  usleep(3000000);
  for (enum relay_role role = 0; role < RELAY_ROLES; role++)
    proxy_thaw(proxy, role);
  const struct october_answer *answer = october_wait(server, id, 30);
  assert_int_equal(answer->exit_code, 0);
  assert_string_equal(answer->output.text, answer->output_content);
  proxy_stop(proxy);
}
