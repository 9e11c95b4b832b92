/* Steps over HTTP: their routes, states, ids, results and errors (docs/http.md). */

#include "tests/support/http_steps.h"
#include "tests/support/proc.h"
#include "tests/test.h"

TEST_OVERLAP(3)

#define TRUE_STEP "{\"command\":\"true\"}"

/* --- PUT and GET ------------------------------------------------------------------------------ */

HTTP_TEST(a_put_is_answered_with_the_state_and_a_get_with_the_result) {
  http_agent_start(http, NULL, NULL);
  const cJSON *state = http_steps_put(http, "1", http_steps_script("echo hello; exit 3"));
  assert_string_equal(http_steps_text(state, "stepId"), "1");
  assert_string_equal(http_steps_text(state, "state"), "running");
  assert_int_equal(http_steps_number(state, "ahead"), 0);
  assert_true(http_steps_number(state, "lastSeq") >= 0);
  assert_int_equal(cJSON_GetArraySize(state), 4);
  const cJSON *result = http_steps_result(http, "1");
  assert_string_equal(http_steps_text(result, "stepId"), "1");
  assert_int_equal(http_steps_number(result, "exitCode"), 3);
  assert_string_equal(http_steps_text(result, "outputContent"), "hello\n");
  assert_int_equal(http_steps_number(result, "eventCount"), 3);
}

HTTP_TEST(the_result_of_a_step_can_be_read_again) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_run(http, "1", http_steps_script("echo hello"));
  const char *first = http_steps_ask(http, 200, "GET", "/steps/1", NULL, NULL);
  assert_string_equal(http_steps_ask(http, 200, "GET", "/steps/1?wait=9", NULL, NULL), first);
  assert_string_equal(http_steps_ask(http, 200, "POST", "/steps/1/cancel", NULL, NULL), first);
  assert_non_null(strstr(first, "\"hello\\n\""));
}

HTTP_TEST(a_get_without_wait_is_answered_at_once_with_the_state) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "1", "echo a");
  (void)http_steps_put(http, "2", TRUE_STEP);
  http_steps_wait_events(http, "1", 2);
  assert_string_equal(http_steps_ask(http, 202, "GET", "/steps/1", NULL, NULL),
                      "{\"stepId\":\"1\",\"state\":\"running\",\"ahead\":0,\"lastSeq\":2}\n");
  assert_string_equal(http_steps_ask(http, 202, "GET", "/steps/2?wait=0", NULL, NULL),
                      "{\"stepId\":\"2\",\"state\":\"waiting\",\"ahead\":1,\"lastSeq\":0}\n");
}

HTTP_TEST(a_get_with_wait_is_answered_when_the_step_is_over) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "1", ":");
  struct http_client *client = http_agent_connect(http);
  http_client_send_request(client, "GET", "/steps/1?wait=60", NULL, NULL);
  (void)http_steps_health(http, "uptimeSeconds");
  assert_false(http_client_has_input(client));
  http_agent_open_gate(http, "1");
  http_agent_expect_status(http, http_client_response(client), 200);
}

HTTP_TEST(a_get_with_wait_is_answered_with_the_state_when_the_time_has_passed) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "1", ":");
  double begun_ms = wait_timer_ms();
  const cJSON *state = http_steps_ask_json(http, 202, "GET", "/steps/1?wait=1", NULL, NULL);
  /* The agent starts its timer with the time at which its turn began. */
  assert_true(wait_exact_ms() - begun_ms >= 900);
  assert_string_equal(http_steps_text(state, "state"), "running");
  (void)http_steps_put(http, "2", TRUE_STEP);
  state = http_steps_ask_json(http, 202, "GET", "/steps/2?wait=1", NULL, NULL);
  assert_int_equal(http_steps_number(state, "ahead"), 1);
}

HTTP_TEST(several_clients_wait_for_the_same_step) {
  enum { CLIENTS = 20 };
  struct http_client *clients[CLIENTS];
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "1", "echo hello");
  for (int i = 0; i < CLIENTS; i++) {
    clients[i] = http_agent_connect(http);
    http_client_send_request(clients[i], "GET", "/steps/1?wait=60", NULL, NULL);
  }
  http_agent_open_gate(http, "1");
  for (int i = 0; i < CLIENTS; i++) {
    const struct http_response *response = http_client_response(clients[i]);
    http_agent_expect_status(http, response, 200);
    assert_non_null(strstr(response->body, "\"hello\\n\""));
  }
}

/* --- order ------------------------------------------------------------------------------------ */

HTTP_TEST(steps_run_one_at_a_time_in_their_order) {
  enum { STEPS = 8 };
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  for (int i = 0; i < STEPS; i++)
    (void)http_steps_put(http, formatted("%d", i),
                         http_steps_script(formatted(
                             "echo begin %d >>order; sleep 0.01; echo end %d >>order", i, i)));
  http_agent_open_gate(http, "gate");
  (void)http_steps_result(http, formatted("%d", STEPS - 1));
  const char *expected = "";
  for (int i = 0; i < STEPS; i++)
    expected = formatted("%sbegin %d\nend %d\n", expected, i, i);
  assert_string_equal(http_steps_file(http, "order"), expected);
}

HTTP_TEST(the_state_says_how_many_steps_are_before_it) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "0", ":");
  for (int i = 1; i < 6; i++) {
    const cJSON *state = http_steps_put(http, formatted("%d", i), TRUE_STEP);
    assert_string_equal(http_steps_text(state, "state"), "waiting");
    assert_int_equal(http_steps_number(state, "ahead"), i);
  }
  (void)http_steps_ask(http, 200, "POST", "/steps/2/cancel", NULL, NULL);
  const cJSON *state = http_steps_ask_json(http, 202, "GET", "/steps/5", NULL, NULL);
  assert_int_equal(http_steps_number(state, "ahead"), 4);
}

/* --- the list --------------------------------------------------------------------------------- */

static const cJSON *list_steps(struct http_agent *http) {
  const cJSON *json = http_steps_ask_json(http, 200, "GET", "/steps", NULL, NULL);
  assert_int_equal(cJSON_GetArraySize(json), 1);
  assert_true(cJSON_IsArray(cJSON_GetObjectItem(json, "steps")));
  return cJSON_GetObjectItem(json, "steps");
}

static const char *ids_of(const cJSON *list) {
  const char *ids = "";
  for (const cJSON *step = list->child; step != NULL; step = step->next)
    ids =
        formatted("%s%s:%s ", ids, http_steps_text(step, "stepId"), http_steps_text(step, "state"));
  return ids;
}

HTTP_TEST(the_list_has_the_running_step_then_those_that_wait_then_those_that_are_over) {
  http_agent_start(http, NULL, NULL);
  assert_string_equal(http_steps_ask(http, 200, "GET", "/steps", NULL, NULL), "{\"steps\":[]}\n");
  (void)http_steps_run(http, "z", TRUE_STEP);
  (void)http_steps_run(http, "a", TRUE_STEP);
  http_steps_hold(http, "m", ":");
  (void)http_steps_put(http, "y", TRUE_STEP);
  (void)http_steps_put(http, "b", TRUE_STEP);
  assert_string_equal(ids_of(list_steps(http)),
                      "m:running y:waiting b:waiting z:finished a:finished ");
  http_agent_open_gate(http, "m");
  (void)http_steps_result(http, "b");
  assert_string_equal(ids_of(list_steps(http)),
                      "z:finished a:finished m:finished y:finished b:finished ");
}

static void expect_time(const cJSON *step, time_t earliest) {
  const char *since = http_steps_text(step, "since");
  struct tm utc = {0};
  const char *rest = strptime(since, "%Y-%m-%dT%H:%M:%S", &utc);
  bool is_valid = rest != NULL && rest[0] == '.' && strspn(rest + 1, "0123456789") == 3 &&
                  strcmp(rest + 4, "+00:00") == 0;
  if (!is_valid || timegm(&utc) < earliest || timegm(&utc) > time(NULL))
    fail_msg("since: %s", since);
}

HTTP_TEST(the_list_describes_each_step) {
  http_agent_start(http, NULL, NULL);
  time_t begun = time(NULL);
  (void)http_steps_put(http, "1", "{\"kind\":\"readFile\",\"path\":\"/nowhere\"}");
  http_steps_wait_state(http, "1", "finished");
  http_steps_hold(http, "2", "echo a");
  (void)http_steps_put(http, "3", "{\"command\":\"true\",\"args\":[\"x\"]}");
  http_steps_wait_events(http, "2", 2);
  const cJSON *list = list_steps(http);
  const cJSON *running = cJSON_GetArrayItem(list, 0), *waiting = cJSON_GetArrayItem(list, 1);
  const cJSON *finished = cJSON_GetArrayItem(list, 2);
  assert_string_equal(http_steps_text(running, "kind"), "run");
  assert_string_equal(http_steps_text(running, "target"), "sh");
  assert_int_equal(http_steps_number(running, "lastSeq"), 2);
  assert_int_equal(cJSON_GetArraySize(running), 6);
  assert_string_equal(http_steps_text(waiting, "target"), "true");
  assert_int_equal(http_steps_number(waiting, "lastSeq"), 0);
  assert_int_equal(cJSON_GetArraySize(waiting), 6);
  assert_string_equal(http_steps_text(finished, "kind"), "readFile");
  assert_string_equal(http_steps_text(finished, "target"), "readFile /nowhere");
  assert_int_equal(http_steps_number(finished, "exitCode"), 1);
  assert_int_equal(cJSON_GetArraySize(finished), 8);
  for (const cJSON *step = list->child; step != NULL; step = step->next)
    expect_time(step, begun);
}

HTTP_TEST(the_list_says_whether_a_result_was_read) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_put(http, "1", TRUE_STEP);
  http_steps_wait_state(http, "1", "finished");
  assert_true(cJSON_IsFalse(cJSON_GetObjectItem(list_steps(http)->child, "read")));
  (void)http_steps_result(http, "1");
  assert_true(cJSON_IsTrue(cJSON_GetObjectItem(list_steps(http)->child, "read")));
  (void)http_steps_put(http, "2", TRUE_STEP);
  http_steps_wait_state(http, "2", "finished");
  assert_true(cJSON_IsFalse(cJSON_GetObjectItem(list_steps(http)->child->next, "read")));
  free(http_stream_all(http, "/steps/2/events", NULL));
  assert_true(cJSON_IsTrue(cJSON_GetObjectItem(list_steps(http)->child->next, "read")));
}

HTTP_TEST(the_text_of_started_is_the_target_of_the_list) {
  static const char *const steps[] = {
      "{\"command\":\"true\",\"args\":[\"secret\"]}",
      "{\"kind\":\"grep\",\"path\":\"/dev\",\"pattern\":\"x\"}",
      "{\"command\":\"a\\nb\\u0001\\\"\"}",
      "{\"kind\":\"writeFile\",\"path\":\"/dev/null/x\",\"content\":\"\"}"};
  http_agent_start(http, NULL, NULL);
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    const char *id = formatted("%zu", i);
    (void)http_steps_run(http, id, steps[i]);
    struct http_stream *stream = http_stream_open(http, formatted("/steps/%s/events", id), NULL);
    cJSON *started = cJSON_Parse(http_stream_next(stream));
    const cJSON *listed = cJSON_GetArrayItem(list_steps(http), (int)i);
    assert_string_equal(http_steps_text(started, "line"), http_steps_text(listed, "target"));
    cJSON_Delete(started);
    http_stream_free(stream);
  }
}

/* --- steps are those of the protocol ---------------------------------------------------------- */

/* Times and resources differ from run to run. */
static void remove_figures(cJSON *json) {
  static const char *const names[] = {"timestamp",
                                      "durationSeconds",
                                      "userCpuSeconds",
                                      "systemCpuSeconds",
                                      "readBytes",
                                      "writtenBytes",
                                      "majorFaults",
                                      "voluntarySwitches",
                                      "involuntarySwitches",
                                      "maxRssBytes",
                                      "memory",
                                      "alive",
                                      "maxProcesses",
                                      "cpu",
                                      "pressure",
                                      "throttled"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    cJSON_DeleteItemFromObject(json, names[i]);
  if (cJSON_HasObjectItem(json, "end"))
    remove_figures(cJSON_GetObjectItem(json, "end"));
}

/* The lines without figures. */
static char *comparable(char *lines) {
  struct buffer out = {0};
  char *rest = lines;
  for (char *line; (line = strsep(&rest, "\n")) != NULL && *line != '\0';) {
    cJSON *json = cJSON_Parse(line);
    if (json == NULL)
      fail_msg("not JSON: %s", line);
    remove_figures(json);
    char *text = cJSON_PrintUnformatted(json);
    buffer_add_format(&out, "%s\n", text);
    free(text);
    cJSON_Delete(json);
  }
  *buffer_space(&out, 1) = '\0';
  free(lines);
  return out.bytes;
}

static char *run_once(struct http_agent *http, const char *step) {
  const char *path = directory_path(&http->directory, "once.json");
  FILE *file = fopen(path, "we");
  assert_non_null(file);
  assert_true(fputs(step, file) >= 0);
  assert_int_equal(fclose(file), 0);
  FILE *pipe = popen(formatted("HTTP_DIRECTORY=%s %s --once <%s 2>/dev/null", http->directory.path,
                               agent_process_program(), path),
                     "re");
  char *text = calloc(1, 1 << 20);
  assert_non_null(pipe);
  assert_non_null(text);
  assert_true(fread(text, 1, (1 << 20) - 1, pipe) < (1 << 20) - 1);
  (void)pclose(pipe);
  return text;
}

HTTP_TEST(events_and_results_are_those_of_once) {
  static const char *const steps[] = {
      "{'stepId':'1','command':'sh','args':['-c','echo a; echo b >&2; printf c; exit 7']}",
      "{'stepId':'1','schemaVersion':2,'command':'sh','args':['-c','echo a; kill -9 $$']}",
      "{'stepId':'1','command':'cat','stdin':'one\\ntwo'}",
      "{'stepId':'1','command':'printf','args':['\\\\377\\\\000x\\n'],'raw':true}",
      "{'stepId':'1','command':'no-such-command'}",
      "{'stepId':'1','command':'sleep','args':['30'],'timeoutSeconds':1}",
      ("{'stepId':'1','command':'echo','args':['s3cr3t-value'],'env':{'S':'s3cr3t-value'},"
       "'secrets':['S']}"),
      "{'stepId':'1','kind':'readFile','path':'/proc/version'}",
      "{'stepId':'1','kind':'readFile','path':'/nowhere'}",
      "{'stepId':'1','kind':'listFiles','path':'/nowhere'}",
      "{'stepId':'1','kind':'readBytes','path':'/dev/null/x'}",
      "{'stepId':'1','command':'seq','args':['2000'],'workingDirectory':'/'}"};
  http_agent_start(http, NULL, NULL);
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    const char *step = quoted(steps[i]);
    (void)http_steps_put(http, "1", step);
    char *lines = comparable(http_stream_all(http, "/steps/1/events", NULL));
    char *expected = comparable(run_once(http, step));
    assert_string_equal(lines, expected);
    free(lines);
    free(expected);
    /* The agent knows the id, so another process serves the next step. */
    http_agent_start(http, NULL, NULL);
  }
}

HTTP_TEST(files_can_be_written_edited_and_read) {
  const char *path = directory_path(&http->directory, "file");
  http_agent_start(http, NULL, NULL);
  const cJSON *result = http_steps_run(http, "1",
                                       formatted("{\"kind\":\"writeFile\",\"path\":\"%s\","
                                                 "\"content\":\"hello\\n\"}",
                                                 path));
  assert_int_equal(http_steps_number(result, "exitCode"), 0);
  result = http_steps_run(
      http, "2",
      formatted("{\"kind\":\"editFile\",\"path\":\"%s\",\"edits\":[{\"oldString\":\"hello\","
                "\"newString\":\"bye\"}]}",
                path));
  assert_int_equal(http_steps_number(result, "exitCode"), 0);
  result = http_steps_run(
      http, "3",
      formatted("{\"kind\":\"writeBytes\",\"path\":\"%s\",\"content\":\"QUI=\",\"append\":true,"
                "\"renameTo\":\"%s\"}",
                path, directory_path(&http->directory, "moved")));
  assert_int_equal(http_steps_number(result, "exitCode"), 0);
  assert_string_equal(http_steps_file(http, "moved"), "bye\nAB");
}

HTTP_TEST(flow_control_and_reply_to_have_no_effect) {
  http_agent_start(http, (const char *const[]){"--events-maxlen", "10", NULL}, NULL);
  (void)http_steps_put(http, "1",
                       "{\"command\":\"seq\",\"args\":[\"20000\"],\"flowControl\":true,"
                       "\"replyTo\":\"me\"}");
  const cJSON *result = http_steps_result(http, "1");
  assert_int_equal(http_steps_number(result, "exitCode"), 0);
  assert_int_equal(http_steps_number(result, "eventCount"), 20002);
}

/* --- secrets ---------------------------------------------------------------------------------- */

#define SECRET "s3cr3t-value"
#define SECRET_STEP                                                                                \
  "\"args\":[\"-c\",\"echo $S; echo $S >&2\"],\"env\":{\"S\":\"" SECRET "\"},\"secrets\":[\"S\"]}"

HTTP_TEST(a_secret_is_masked_while_its_step_waits_and_afterwards) {
  http_agent_start(http, (const char *const[]){"--verbose", NULL}, NULL);
  http_steps_hold(http, "gate", ":");
  (void)http_steps_put(http, "1", "{\"command\":\"/nowhere/" SECRET "\"," SECRET_STEP);
  (void)http_steps_put(http, "2", "{\"command\":\"sh\"," SECRET_STEP);
  const char *list = http_steps_ask(http, 200, "GET", "/steps", NULL, NULL);
  assert_null(strstr(list, SECRET));
  assert_non_null(strstr(list, "/nowhere/"));
  http_agent_open_gate(http, "gate");
  for (int i = 1; i <= 2; i++) {
    char *lines = http_stream_all(http, formatted("/steps/%d/events", i), NULL);
    assert_null(strstr(lines, SECRET));
    free(lines);
    assert_null(
        strstr(http_steps_ask(http, 200, "GET", formatted("/steps/%d", i), NULL, NULL), SECRET));
  }
  assert_null(strstr(http_steps_ask(http, 200, "GET", "/steps", NULL, NULL), SECRET));
  assert_int_equal(kill(agent_process_pid(http->process), SIGUSR1), 0);
  agent_process_wait_log(http->process, "frontend http");
  assert_int_equal(agent_process_count_log(http->process, SECRET), 0);
}

HTTP_TEST(a_secret_of_a_cancelled_step_is_masked) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  (void)http_steps_put(http, "1", "{\"command\":\"/nowhere/" SECRET "\"," SECRET_STEP);
  const char *result = http_steps_ask(http, 200, "POST", "/steps/1/cancel", NULL, NULL);
  assert_null(strstr(result, SECRET));
  assert_null(strstr(http_steps_ask(http, 200, "GET", "/steps", NULL, NULL), SECRET));
}

/* The agent meets the invalid field before it has read `secrets`. */
HTTP_TEST(a_secret_of_a_refused_step_is_masked) {
  http_agent_start(http, (const char *const[]){"--verbose", NULL}, NULL);
  const cJSON *result =
      http_steps_ask_json(http, 422, "PUT", "/steps/1", NULL,
                          "{\"command\":\"true\",\"secrets\":[\"S\"],\"env\":{\"S\":\"" SECRET
                          "\",\"" SECRET "\":\"1\",\"" SECRET "\":\"2\"}}");
  assert_string_equal(http_steps_text(result, "errorMessage"),
                      "env.***: expected once, got it twice");
  (void)http_steps_ask(http, 422, "PUT", "/steps/1", NULL,
                       "{\"command\":\"\",\"" SECRET
                       "\":1,\"secrets\":[\"S\"],\"env\":{\"S\":\"" SECRET "\"}}");
  agent_process_wait_log(http->process, "*** (1 bytes)");
  assert_int_equal(agent_process_count_log(http->process, SECRET), 0);
}

/* --- refused steps ---------------------------------------------------------------------------- */

HTTP_TEST(a_step_that_the_protocol_refuses_gets_422_and_its_id_remains_free) {
  static const char *const steps[] = {"",
                                      "{",
                                      "[]",
                                      "null",
                                      "{}",
                                      "{'command':''}",
                                      "{'command':1}",
                                      "{'command':'true','command':'true'}",
                                      "{'command':'true','args':'x'}",
                                      "{'command':'true','timeoutSeconds':0}",
                                      "{'command':'true','timeoutSeconds':'1'}",
                                      "{'command':'true','env':{'A=B':'x'}}",
                                      "{'command':'true','secrets':['NOT_THERE']}",
                                      "{'command':'a\\u0000b'}",
                                      "{'kind':'no-such-kind'}",
                                      "{'kind':null}",
                                      "{'kind':'readFile'}",
                                      "{'kind':'grep','path':'/','pattern':''}",
                                      "{'stepId':'1','command':''}",
                                      "{'stepId':'1','schemaVersion':2,'kind':'no-such-kind'}",
                                      "{'command':'true'} x"};
  http_agent_start(http, NULL, NULL);
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    print_message("%s\n", steps[i]);
    const cJSON *result = http_steps_ask_json(http, 422, "PUT", "/steps/1", NULL, quoted(steps[i]));
    assert_string_equal(http_steps_text(result, "stepId"), "1");
    assert_int_equal(http_steps_number(result, "exitCode"), -1);
    assert_true(strlen(http_steps_text(result, "errorMessage")) > 0);
    http_steps_expect_error(http, 404, "not_found", "GET", "/steps/1", NULL);
  }
  assert_int_equal(list_steps(http)->child == NULL, 1);
  assert_int_equal(http_steps_number(http_steps_run(http, "1", TRUE_STEP), "exitCode"), 0);
}

HTTP_TEST(a_cancel_is_not_a_step_to_put) {
  static const char *const steps[] = {"{'kind':'cancel'}", "{'kind':'cancel','stepId':'1'}",
                                      "{'kind':' CANCEL ','stepId':'1'}"};
  http_agent_start(http, NULL, NULL);
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    const char *step = quoted(steps[i]);
    const char *error = http_steps_ask(http, 400, "PUT", "/steps/1", NULL, step);
    assert_non_null(strstr(error, "\"error\":\"invalid\""));
    assert_non_null(strstr(error, "POST /steps/{id}/cancel"));
  }
  http_steps_expect_error(http, 404, "not_found", "GET", "/steps/1", NULL);
}

/* --- ids -------------------------------------------------------------------------------------- */

struct id_row {
  const char *segment;
  const char *id; /* in JSON, without quotes */
};

static const struct id_row valid_ids[] = {{"a", "a"},
                                          {"%41", "A"},
                                          {"a%20b", "a b"},
                                          {"%C3%A9%E2%82%AC", "\xc3\xa9\xe2\x82\xac"},
                                          {"%22%27", "\\\"'"},
                                          {"%01%7f", "\\u0001\x7f"},
                                          {"%0d%0aX:%20y", "\\r\\nX: y"},
                                          {"%25%32%46", "%2F"},
                                          {"...", "..."},
                                          {".a", ".a"},
                                          {"~!$&'()*+,;=:@-._", "~!$&'()*+,;=:@-._"},
                                          {"%3f", "?"},
                                          {"%23", "#"},
                                          {"%F0%9F%98%80", "\xf0\x9f\x98\x80"},
                                          {"events", "events"}};

HTTP_TEST(an_id_is_decoded_once_and_echoed) {
  http_agent_start(http, NULL, NULL);
  for (size_t i = 0; i < sizeof valid_ids / sizeof *valid_ids; i++) {
    const char *id = valid_ids[i].id, *segment = valid_ids[i].segment;
    cJSON *name = cJSON_Parse(formatted("\"%s\"", id));
    const cJSON *state = http_steps_put(
        http, segment,
        formatted("{\"stepId\":\"%s\",\"command\":\"printenv\",\"args\":[\"SANDBOX_STEP_ID\"]}",
                  id));
    assert_string_equal(http_steps_text(state, "stepId"), name->valuestring);
    const cJSON *result = http_steps_result(http, segment);
    assert_string_equal(http_steps_text(result, "stepId"), name->valuestring);
    if (strchr(name->valuestring, '\r') == NULL)
      assert_string_equal(http_steps_text(result, "outputContent"),
                          formatted("%s\n", name->valuestring));
    free(http_stream_all(http, formatted("/steps/%s/events", segment), NULL));
    (void)http_steps_ask(http, 204, "DELETE", formatted("/steps/%s", segment), NULL, NULL);
    cJSON_Delete(name);
  }
}

static void expect_bad_id(struct http_agent *http, const char *segment, const char *word) {
  print_message("%.40s\n", segment);
  const char *path = formatted("/steps/%s", segment);
  http_steps_expect_error(http, 400, word, "PUT", path, TRUE_STEP);
  http_steps_expect_error(http, 400, word, "GET", path, NULL);
  http_steps_expect_error(http, 400, word, "DELETE", path, NULL);
  http_steps_expect_error(http, 400, word, "GET", formatted("%s/events", path), NULL);
  http_steps_expect_error(http, 400, word, "POST", formatted("%s/cancel", path), NULL);
}

HTTP_TEST(an_id_is_utf8_of_1_to_1024_bytes) {
  char id[1026], encoded[3 * 1024 + 1] = "";
  memset(id, 'a', 1025);
  id[1025] = '\0';
  http_agent_start(http, NULL, NULL);
  expect_bad_id(http, id, "invalid");
  expect_bad_id(http, "%ff", "invalid");
  expect_bad_id(http, "a%c3", "invalid");
  expect_bad_id(http, "%ed%a0%80", "invalid");
  expect_bad_id(http, "%c0%af", "invalid");
  id[1024] = '\0';
  assert_int_equal(http_steps_number(http_steps_run(http, id, TRUE_STEP), "exitCode"), 0);
  for (int i = 0; i < 1024; i++)
    memcpy(encoded + 3 * i, i % 2 == 0 ? "%C3" : "%A9", 4);
  assert_int_equal(http_steps_number(http_steps_run(http, encoded, TRUE_STEP), "exitCode"), 0);
  char *list = http_agent_list_steps(http);
  assert_non_null(strstr(list, id));
  free(list);
}

HTTP_TEST(an_id_has_no_slash_no_backslash_and_no_nul) {
  static const char *const segments[] = {"a%2Fb", "a%5cb", "a%00", "", ".", "..", "%2e", ".%2E"};
  http_agent_start(http, NULL, NULL);
  for (size_t i = 0; i < sizeof segments / sizeof *segments; i++)
    expect_bad_id(http, segments[i], "malformed");
  http_steps_expect_error(http, 404, "not_found", "PUT", "/steps/a/b", TRUE_STEP);
}

HTTP_TEST(the_id_in_the_body_is_that_of_the_path) {
  static const char *const others[] = {"2", "", "01", "1 ", "1\\u0000"};
  http_agent_start(http, NULL, NULL);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    struct http_client *client = http_agent_connect(http);
    const char *step = formatted("{\"stepId\":\"%s\",\"command\":\"true\"}", others[i]);
    int status = http_client_request(client, "PUT", "/steps/1", NULL, step)->status;
    print_message("%s: %d\n", step, status);
    assert_true(status == 400 || status == 422);
    assert_true(strcmp(others[i], "2") != 0 || status == 400);
  }
  http_steps_expect_error(http, 400, "invalid", "PUT", "/steps/1",
                          "{\"stepId\":\"2\",\"command\":\"\"}");
  assert_null(list_steps(http)->child);
  (void)http_steps_run(http, "1", "{\"stepId\":\"1\",\"command\":\"true\"}");
  (void)http_steps_run(http, "2", "{\"stepId\":null,\"command\":\"true\"}");
  (void)http_steps_run(http, "3", "{\"StepId\":\"4\",\"command\":\"true\"}");
}

HTTP_TEST(ids_are_compared_byte_by_byte) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_run(http, "a", TRUE_STEP);
  http_steps_expect_error(http, 404, "not_found", "GET", "/steps/A", NULL);
  http_steps_expect_error(http, 404, "not_found", "GET", "/steps/a%20", NULL);
  (void)http_steps_run(http, "A", "{\"command\":\"false\"}");
  assert_int_equal(http_steps_number(http_steps_result(http, "a"), "exitCode"), 0);
}

/* --- unknown and deleted steps ---------------------------------------------------------------- */

static void expect_on_each_route(struct http_agent *http, int status, const char *word) {
  http_steps_expect_error(http, status, word, "GET", "/steps/1", NULL);
  http_steps_expect_error(http, status, word, "GET", "/steps/1?wait=60", NULL);
  http_steps_expect_error(http, status, word, "GET", "/steps/1/events", NULL);
  http_steps_expect_error(http, status, word, "POST", "/steps/1/cancel", NULL);
  http_steps_expect_error(http, status, word, "DELETE", "/steps/1", NULL);
}

HTTP_TEST(an_unknown_step_is_404_and_a_deleted_one_410) {
  http_agent_start(http, NULL, NULL);
  expect_on_each_route(http, 404, "not_found");
  (void)http_steps_run(http, "1", TRUE_STEP);
  assert_string_equal(http_steps_ask(http, 204, "DELETE", "/steps/1", NULL, NULL), "");
  expect_on_each_route(http, 410, "gone");
  assert_null(list_steps(http)->child);
}

HTTP_TEST(a_step_is_not_deleted_while_it_waits_or_runs) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "1", ":");
  (void)http_steps_put(http, "2", TRUE_STEP);
  http_steps_expect_error(http, 409, "not_over", "DELETE", "/steps/1", NULL);
  http_steps_expect_error(http, 409, "not_over", "DELETE", "/steps/2", NULL);
  http_agent_open_gate(http, "1");
  assert_int_equal(http_steps_number(http_steps_result(http, "1"), "exitCode"), 0);
  assert_int_equal(http_steps_number(http_steps_result(http, "2"), "exitCode"), 0);
  (void)http_steps_ask(http, 204, "DELETE", "/steps/1", NULL, NULL);
}

HTTP_TEST(an_unread_result_can_be_deleted) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_put(http, "1", TRUE_STEP);
  http_steps_wait_state(http, "1", "finished");
  assert_int_equal(http_steps_health(http, "unread"), 1);
  (void)http_steps_ask(http, 204, "DELETE", "/steps/1", NULL, NULL);
  assert_int_equal(http_steps_health(http, "unread"), 0);
}

/* --- queries and methods ---------------------------------------------------------------------- */

HTTP_TEST(unknown_query_parameters_are_ignored) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_ask(http, 202, "PUT", "/steps/1?x=y&after=0&&=&%zz&wait=x", NULL, TRUE_STEP);
  (void)http_steps_ask(http, 200, "GET", "/steps/1?Wait=x&waits=x&wait=60&after=x", NULL, NULL);
  (void)http_steps_ask(http, 200, "GET", "/steps?wait=x", NULL, NULL);
  free(http_stream_all(http, "/steps/1/events?wait=x&afters=7&x", NULL));
  (void)http_steps_ask(http, 204, "DELETE", "/steps/1?wait=x&after=x", NULL, NULL);
}

HTTP_TEST(after_and_wait_are_numbers) {
  static const char *const values[] = {"",    "x",   "-1",  "+1",    "1.5", "1x", "%31x",
                                       "0x1", "1e3", "%20", "1%202", "NaN", "1,2"};
  http_agent_start(http, NULL, NULL);
  (void)http_steps_run(http, "1", TRUE_STEP);
  http_steps_hold(http, "2", ":");
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    print_message("'%s'\n", values[i]);
    http_steps_expect_error(http, 400, "invalid", "GET", formatted("/steps/2?wait=%s", values[i]),
                            NULL);
    http_steps_expect_error(http, 400, "invalid", "GET",
                            formatted("/steps/1/events?after=%s", values[i]), NULL);
  }
  http_steps_expect_error(http, 400, "invalid", "GET", "/steps/1?wait=x", NULL);
}

HTTP_TEST(a_number_has_any_size) {
  static const char large[] = "123456789012345678901234567890";
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "1", ":");
  http_steps_expect_error(http, 409, "ahead", "GET", formatted("/steps/1/events?after=%s", large),
                          NULL);
  struct http_client *client = http_agent_connect(http);
  http_client_send_request(client, "GET", formatted("/steps/1?wait=%s", large), NULL, NULL);
  (void)http_steps_health(http, "uptimeSeconds");
  http_agent_open_gate(http, "1");
  http_agent_expect_status(http, http_client_response(client), 200);
  (void)http_steps_ask(http, 200, "GET", "/steps/1?wait=000", NULL, NULL);
}

static void expect_allow(struct http_agent *http, const char *method, const char *path,
                         const char *allowed) {
  struct http_client *client = http_client_connect(http->address);
  const struct http_response *response = http_client_request(client, method, path, NULL, NULL);
  http_agent_expect_error(http, response, 405, "method");
  const char *allow = http_response_field(response, "Allow");
  assert_string_equal(allow != NULL ? allow : "", allowed);
  http_client_free(client);
}

HTTP_TEST(a_path_has_only_its_methods) {
  http_agent_start(http, NULL, NULL);
  expect_allow(http, "POST", "/steps", "GET");
  expect_allow(http, "POST", "/steps/1", "PUT, GET, DELETE");
  expect_allow(http, "PATCH", "/steps/1", "PUT, GET, DELETE");
  expect_allow(http, "POST", "/steps/1/events", "GET");
  expect_allow(http, "GET", "/steps/1/cancel", "POST");
  http_steps_expect_error(http, 404, "not_found", "GET", "/", NULL);
  http_steps_expect_error(http, 404, "not_found", "GET", "/steps/1/events/2", NULL);
  http_steps_expect_error(http, 404, "not_found", "POST", "/execute", "{}");
  http_steps_expect_error(http, 404, "not_found", "POST", "/mcp", "{}");
}

/* --- health ----------------------------------------------------------------------------------- */

HTTP_TEST(health_counts_steps_and_names_the_running_one) {
  http_agent_start(http, (const char *const[]){"--job-id", "pipe-42", NULL}, NULL);
  const cJSON *health = http_steps_ask_json(http, 200, "GET", "/health", NULL, NULL);
  assert_true(cJSON_IsNull(cJSON_GetObjectItem(health, "stepInFlight")));
  (void)http_steps_put(http, "0", TRUE_STEP);
  http_steps_wait_state(http, "0", "finished");
  http_steps_hold(http, "1", ":");
  (void)http_steps_put(http, "2", TRUE_STEP);
  (void)http_steps_put(http, "3", TRUE_STEP);
  health = http_steps_ask_json(http, 200, "GET", "/health", NULL, NULL);
  assert_string_equal(http_steps_text(health, "status"), "ok");
  assert_string_equal(http_steps_text(health, "mode"), "steps");
  assert_string_equal(http_steps_text(health, "job"), "pipe-42");
  assert_string_equal(http_steps_text(health, "stepInFlight"), "1");
  assert_int_equal(http_steps_number(health, "waiting"), 2);
  assert_int_equal(http_steps_number(health, "unread"), 1);
  assert_int_equal(http_steps_number(health, "pid"), agent_process_pid(http->process));
  assert_int_equal(http_steps_text(health, "workingDirectory")[0], '/');
}
