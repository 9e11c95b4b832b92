#include "agent/kinds/kind.h"
#include "base/buffer.h"
#include "tests/test.h"
#include "wire/step.h"

/* Parses an exact copy, for the sanitizer, with quotes as in quoted.h. */
static int parse_bytes(struct step *step, const char *text, size_t length, struct error *error) {
  char *payload = malloc(length > 0 ? length : 1);
  assert_non_null(payload);
  memcpy(payload, text, length);
  quoted_bytes(payload, length);
  int result = step_parse(step, kinds, payload, length, error);
  free(payload);
  return result;
}

#define KIND_NAMES                                                                                 \
  "run, readFile, readBytes, writeFile, writeBytes, editFile, listFiles, grep, directoryTree, "    \
  "shutdown, "                                                                                     \
  "cancel"

#define UNKNOWN_KIND(VERSION)                                                                      \
  "This sandbox agent speaks wire protocol 1-2 and does not know the step kind it was sent "       \
  "(schema version " VERSION "). Nothing was executed."

static const struct run_fields *run_of(const struct step *step) {
  return step->fields;
}

static int parse(struct step *step, const char *text, struct error *error) {
  return parse_bytes(step, text, strlen(text), error);
}

static void assert_refused(const char *text, size_t length, const char *message, const char *id) {
  struct step step;
  struct error error = {.text = ""};
  if (parse_bytes(&step, text, length, &error) != -1)
    fail_msg("taken: %s", text);
  assert_string_equal(error.text, quoted(message));
  assert_string_equal(step.step_id, id);
  step_release(&step);
}

static void parse_golden(struct step *step, const char *path) {
  char golden[1024] = "";
  struct error error;
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  assert_true(fread(golden, 1, sizeof golden - 1, file) > 0);
  assert_int_equal(fclose(file), 0);
  assert_int_equal(parse(step, golden, &error), 0);
}

TEST(a_run_step_of_the_protocol_is_read) {
  struct step step;
  parse_golden(&step, "tests/unit/golden/step_run.json");
  assert_int_equal(step.schema_version, 1);
  assert_string_equal(step.step_id, "11111111-1111-1111-1111-111111111111");
  assert_ptr_equal(step.kind, &run_kind.wire);
  assert_string_equal(step.target, "git");
  assert_string_equal(run_of(&step)->args[0], "clone");
  assert_string_equal(run_of(&step)->args[1], "https://github.com/foo/bar.git");
  assert_string_equal(run_of(&step)->args[2], ".");
  assert_null(run_of(&step)->args[3]);
  assert_string_equal(step.working_directory, "/work");
  assert_null(step.env[0]);
  assert_int_equal(step.timeout_seconds, 600);
  step_release(&step);
  assert_null(step.step_id);
  assert_null(step.fields);
}

TEST(a_shutdown_and_a_cancel_of_the_protocol_are_read) {
  static const struct {
    const char *path, *id;
    const struct step_kind *kind;
  } rows[] = {
      {"tests/unit/golden/step_shutdown.json", "00000000-0000-0000-0000-000000000002",
       &step_shutdown},
      {"tests/unit/golden/step_cancel.json", "11111111-1111-1111-1111-111111111111", &step_cancel}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct step step;
    parse_golden(&step, rows[i].path);
    assert_string_equal(step.step_id, rows[i].id);
    assert_ptr_equal(step.kind, rows[i].kind);
    assert_null(step.target);
    assert_null(step.fields);
    step_release(&step);
  }
}

TEST(absent_and_null_fields_have_defaults) {
  static const char *const rows[] = {
      "{'stepId':'s','command':'ls'}",
      ("{'stepId':'s','command':'ls','schemaVersion':null,'args':null,"
       "'workingDirectory':null,'env':null,'timeoutSeconds':null}"),
      "{'stepId':'s','command':'ls','args':[],'env':{},'workingDirectory':''}",
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct step step;
    struct error error = {.text = "untouched"};
    assert_int_equal(parse(&step, rows[i], &error), 0);
    assert_string_equal(error.text, "untouched");
    assert_int_equal(step.schema_version, 1);
    assert_ptr_equal(step.kind, &run_kind.wire);
    assert_non_null(run_of(&step)->args);
    assert_null(run_of(&step)->args[0]);
    assert_null(step.working_directory);
    assert_non_null(step.env);
    assert_null(step.env[0]);
    assert_int_equal(step.timeout_seconds, 600);
    step_release(&step);
  }
}

TEST(the_error_of_an_unknown_kind_names_the_known_versions) {
  static const char *const unknown[] = {
      "'compile'",  "''",    "' '",       "'runs'", "'ru'", "'r un'", "'run\\u0000'",
      "'a\\nb'",    "8",     "-1",        "5.5",    "99",   "1e300",  "'8'",
      "'-1'",       "'5 5'", "'5x'",      "null",   "true", "false",  "'4294967296'",
      "4294967296", "'1e0'", "'run,grep'"};
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
    const char *json = formatted("{'stepId':'s','command':'x','kind':%s}", unknown[i]);
    assert_refused(json, strlen(json), UNKNOWN_KIND("1"), "s");
    json = formatted("{'schemaVersion':-7,'stepId':'s','timeoutSeconds':0,'kind':%s}", unknown[i]);
    assert_refused(json, strlen(json), UNKNOWN_KIND("-7"), "s");
  }
}

TEST(unknown_fields_and_other_notations_are_accepted) {
  static const char *const rows[] = {
      /* Unknown fields are ignored; names are case-sensitive. */
      "{'stepId':'s','command':'x','x':[1,{'a':1,'a':2}],'Command':5,'':null}",
      "{'stepId':'s','command':'x','x':'\\u0000','\\u0000':1,'stepId\\u0000':2}",
      /* Fields that a shutdown and a cancel do not have. */
      ("{'stepId':'s','kind':'shutdown','command':5,'args':{},'env':[],"
       "'timeoutSeconds':-1}"),
      ("{'stepId':'s','kind':'cancel','command':5,'args':{},'env':[],"
       "'timeoutSeconds':-1}"),
      /* Space around the object, or a byte order mark. */
      " \r\n\t{ 'stepId' : 's' , 'command' : 'x' } \n",
      "\xEF\xBB\xBF{'stepId':'s','command':'x'}",
      /* Escaped names, and whole numbers in other notations. */
      "{'step\\u0049d':'s','comman\\u0064':'x'}",
      "{'stepId':'s','command':'x','schemaVersion':1.0,'timeoutSeconds':6e2}",
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct step step;
    struct error error;
    if (parse(&step, rows[i], &error) != 0)
      fail_msg("%s: %s", rows[i], error.text);
    assert_string_equal(step.step_id, "s");
    step_release(&step);
  }
}

struct refusal {
  const char *fields, *message;
};

/* The fields of each row, between `before` and `after`, are rejected with its message. */
static void assert_all_refused(const struct refusal *rows, size_t count, const char *before,
                               const char *after, const char *id) {
  for (size_t i = 0; i < count; i++) {
    const char *json = formatted("%s%s%s", before, rows[i].fields, after);
    assert_refused(json, strlen(json), rows[i].message, id);
  }
}

TEST(payloads_that_are_no_step_are_rejected) {
  static const struct {
    const char *payload, *message, *id;
  } rows[] = {
      {"", "payload: expected JSON, got invalid or truncated text near byte 0", STEP_NIL_ID},
      {"  ", "payload: expected JSON, got invalid or truncated text near byte 1", STEP_NIL_ID},
      {"hello", "payload: expected JSON, got invalid or truncated text near byte 0", STEP_NIL_ID},
      {"{`stepId`:`s`}", "payload: expected JSON, got invalid or truncated text near byte 2",
       STEP_NIL_ID},
      {"{'stepId':'s", "payload: expected JSON, got invalid or truncated text near byte 11",
       STEP_NIL_ID},
      {"[]", "payload: expected an object, got an array", STEP_NIL_ID},
      {"[{'stepId':'s'}]", "payload: expected an object, got an array", STEP_NIL_ID},
      {"'x'", "payload: expected an object, got a string", STEP_NIL_ID},
      {"12", "payload: expected an object, got a number", STEP_NIL_ID},
      {"true", "payload: expected an object, got a boolean", STEP_NIL_ID},
      {"null", "payload: expected an object, got null", STEP_NIL_ID},
      {"{'stepId':'s',}", "payload: expected JSON, got invalid or truncated text near byte 14",
       "s"},
      {"{'stepId':'s','command':'x",
       "payload: expected JSON, got invalid or truncated text near byte 25", "s"},
      {"{'stepId':'s','command':'x'",
       "payload: expected JSON, got invalid or truncated text near byte 26", "s"},
      {"{'stepId':'s','args':['\\u0000',",
       "payload: expected JSON, got invalid or truncated text near byte 30", "s"},
      {"{'stepId':'s','x':'\\u0000\\ud800'}",
       "payload: expected a pair of surrogates, got \\ud800 alone at byte 25", "s"},
      {"{'stepId':'s','x':'\\uDc00'}",
       "payload: expected a pair of surrogates, got \\uDc00 alone at byte 19", "s"},
      {"{'stepId':'s','command':'x'} {}",
       "payload: expected one object, got more behind it at byte 29", "s"},
      {"{'stepId':'s','x':'\\u0000'}x",
       "payload: expected one object, got more behind it at byte 27", "s"},
      {"{'stepId':'s','command':'\xFF'}", "payload: expected UTF-8, broken at byte 25", "s"},
      {"{'command':'\xC3','stepId':'s'}", "payload: expected UTF-8, broken at byte 12", "s"},
      {"{'stepId':'s','command':'a\nb'}",
       "payload: expected JSON, got a raw control character 0x0a at byte 26", "s"},
      {"{'stepId':'s','timeoutSeconds':010}", "payload: expected a JSON number at byte 31", "s"},
      {"{'stepId':'s','command':'a\\uXYZT'}",
       "payload: expected four hexadecimal digits after \\u at byte 26", "s"},
      {"{'stepId':'s','command':'x','stepId':'t'}", "stepId: expected once, got it twice", "s"},
      {"{'stepId':'s','command':'x','comman\\u0064':'y'}", "command: expected once, got it twice",
       "s"},
      {"{'stepId':'s','x':1,'x':1}", "x: expected once, got it twice", "s"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    assert_refused(rows[i].payload, strlen(rows[i].payload), rows[i].message, rows[i].id);
}

/* The ID is a string of the outermost object; faults elsewhere do not matter. */
TEST(the_id_is_found_in_text_that_is_broken) {
  static const struct {
    const char *payload, *id;
  } rows[] = {
      {" {'x':{'stepId':'inner'},'stepId' \n:\t'a'", "a"},
      {"{'stepId':'a\\'b'", "a\"b"},
      {"{'stepId':'first','stepId':'second'", "first"},
      {"{'stepId':1,'stepId':'second'", "second"},
      {"{'stepId':'\xFF','stepId':'second'", "second"},
      {"{'x':'\xFF','stepId':'a'", "a"},
      {"{x:,,'stepId':'a'", "a"},
      {"{'stepId':'a", STEP_NIL_ID},
      {"{'stepId':'a\\", STEP_NIL_ID},
      {"{'stepId':''", STEP_NIL_ID},
      {"{'stepId':'\\x','stepId':'second'", "second"},
      {"{'stepId':'\\u12'", STEP_NIL_ID},
      {"{'stepId'", STEP_NIL_ID},
      {"{'stepId':", STEP_NIL_ID},
      {"{'step\\u0049d':'a'", STEP_NIL_ID},
      {"{'stepI':'stepId','stepIdx':'a'", STEP_NIL_ID},
      {"{'x':'stepId','y':'a'", STEP_NIL_ID},
      {"['stepId':'a'", STEP_NIL_ID},
      {"'stepId':'a'", STEP_NIL_ID},
      {"{} {'stepId':'a'}", STEP_NIL_ID},
      {"{}}}}{'stepId':'a'}", STEP_NIL_ID},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct step step;
    struct error error;
    const char *json = quoted(rows[i].payload);
    assert_int_equal(step_parse(&step, kinds, json, strlen(json), &error), -1);
    if (strcmp(step.step_id, rows[i].id) != 0)
      fail_msg("%s: %s", json, step.step_id);
    step_release(&step);
  }
}

TEST(wrong_fields_are_named) {
  static const struct refusal rows[] = {
      {"'schemaVersion':1.5", "schemaVersion: expected a whole number of 32 bits, got 1.5"},
      {"'schemaVersion':2147483648",
       "schemaVersion: expected a whole number of 32 bits, got 2147483648"},
      {"'schemaVersion':-2147483649",
       "schemaVersion: expected a whole number of 32 bits, got -2147483649"},
      {"'schemaVersion':'1'", "schemaVersion: expected a whole number of 32 bits, got a string"},
      {"'schemaVersion':{}", "schemaVersion: expected a whole number of 32 bits, got an object"},
      {"'kind':[]", "kind: expected one of " KIND_NAMES ", got an array"},
      {"'kind':{'a':1}", "kind: expected one of " KIND_NAMES ", got an object"},
      {"'args':'-l'", "args: expected an array of strings, got a string"},
      {"'args':{}", "args: expected an array of strings, got an object"},
      {"'args':['a',1]", "args[1]: expected a string, got a number"},
      {"'args':[null]", "args[0]: expected a string, got null"},
      {"'args':[['a']]", "args[0]: expected a string, got an array"},
      {"'args':['','a\\u0000b']", "args[1]: expected a string without NUL, got one with it"},
      {"'workingDirectory':1", "workingDirectory: expected a string, got a number"},
      {"'workingDirectory':false", "workingDirectory: expected a string, got a boolean"},
      {"'workingDirectory':'/\\u0000'",
       "workingDirectory: expected a string without NUL, got one with it"},
      {"'env':['A=b']", "env: expected an object of strings, got an array"},
      {"'env':'A=b'", "env: expected an object of strings, got a string"},
      {"'env':{'A':1}", "env.A: expected a string, got a number"},
      {"'env':{'A':'','B':null}", "env.B: expected a string, got null"},
      {"'env':{'':'x'}", "env: expected non-empty names, got an empty one"},
      {"'env':{'TOKEN=secret':'x'}", "env.TOKEN: expected a name without \"=\", got one with it"},
      {"\"env\":{\"=\":\"x\"}", "env.: expected a name without \"=\", got one with it"},
      {"\"env\":{\"A\\u0000B\":\"x\"}", "env.A?B: expected a name without NUL, got one with it"},
      {"'env':{'A':'x\\u0000'}", "env.A: expected a string without NUL, got one with it"},
      {"'env':{'A':'1','B':'','A':'2'}", "env.A: expected once, got it twice"},
      {"'timeoutSeconds':'10'",
       "timeoutSeconds: expected a whole number from 1 to 31536000, got a string"},
      {"'timeoutSeconds':true",
       "timeoutSeconds: expected a whole number from 1 to 31536000, got a boolean"},
      {"'timeoutSeconds':0", "timeoutSeconds: expected a whole number from 1 to 31536000, got 0"},
      {"'timeoutSeconds':31536001",
       "timeoutSeconds: expected a whole number from 1 to 31536000, got 31536001"},
      {"'timeoutSeconds':1.5",
       "timeoutSeconds: expected a whole number from 1 to 31536000, got 1.5"},
      {"'timeoutSeconds':1e300",
       "timeoutSeconds: expected a whole number from 1 to 31536000, got 1e+300"},
      {"'timeoutSeconds':1e999",
       "timeoutSeconds: expected a whole number from 1 to 31536000, got inf"},
  };
  assert_all_refused(rows, sizeof rows / sizeof *rows, "{'stepId':'s','command':'x',", "}", "s");
}

TEST(a_wrong_policy_is_rejected_by_name) {
  static const struct refusal rows[] = {
      {"'fence':[]", "fence: expected an object, got an array"},
      {"'fence':{'writePath':[]}", "fence.writePath: unknown field"},
      {"'fence':{'network':'none','network':'all'}", "fence.network: expected once, got it twice"},
      {"'fence':{'network':'None'}",
       "fence.network: expected one of all, ports, loopback, none, got \"None\""},
      {"'fence':{'network':'an internet without any other company at all'}",
       "fence.network: expected one of all, ports, loopback, none, got \"an internet without any "
       "other company...\""},
      {"'fence':{'network':''}",
       "fence.network: expected one of all, ports, loopback, none, got an empty string"},
      {"'fence':{'network':3}", "fence.network: expected a string, got a number"},
      {"'fence':{'writePaths':['/a','']}",
       "fence.writePaths[1]: expected a path of 1 to 4095 bytes, got 0"},
      {"'fence':{'readPaths':'/a'}", "fence.readPaths: expected an array of strings, got a string"},
      {"'fence':{'network':'none','tcpBind':[]}",
       "fence.tcpBind: expected only with network \"ports\", got it with \"none\""},
      {"'fence':{'network':'ports','tcpConnect':[443,65536]}",
       "fence.tcpConnect[1]: expected a whole number from 0 to 65535, got 65536"},
      {"'fence':{'network':'ports','tcpBind':['80']}",
       "fence.tcpBind[0]: expected a whole number from 0 to 65535, got a string"},
      {"'fence':{'bestEffort':1}", "fence.bestEffort: expected true or false, got a number"},
      {"'limits':7", "limits: expected an object, got a number"},
      {"'limits':{'memory':1}", "limits.memory: unknown field"},
      {"'limits':{'memoryBytes':-1}",
       "limits.memoryBytes: expected a whole number from 1 to 9007199254740991, got -1"},
      {"'limits':{'processes':0}",
       "limits.processes: expected a whole number from 1 to 9007199254740991, got 0"},
  };
  assert_all_refused(rows, sizeof rows / sizeof *rows, "{'stepId':'s','command':'x',", "}", "s");
}

TEST(a_run_needs_a_command) {
  static const struct refusal rows[] = {
      {"", "command: expected a non-empty string, got nothing"},
      {",'command':null", "command: expected a non-empty string, got nothing"},
      {",'command':''", "command: expected a non-empty string, got an empty string"},
      {",'command':true", "command: expected a non-empty string, got a boolean"},
      {",'command':['ls']", "command: expected a non-empty string, got an array"},
      {",'command':'l\\u0000s'", "command: expected a string without NUL, got one with it"},
      {",'command':'\\u0000'", "command: expected a string without NUL, got one with it"},
  };
  assert_all_refused(rows, sizeof rows / sizeof *rows, "{'stepId':'s'", "}", "s");
}

TEST(every_step_needs_an_id) {
  static const struct refusal rows[] = {
      {"'x':1", "stepId: expected a non-empty string, got nothing"},
      {"'StepId':'s'", "stepId: expected a non-empty string, got nothing"},
      {"'stepId':null", "stepId: expected a non-empty string, got nothing"},
      {"'stepId':''", "stepId: expected a non-empty string, got an empty string"},
      {"'stepId':5", "stepId: expected a non-empty string, got a number"},
      {"'stepId':{'stepId':'s'}", "stepId: expected a non-empty string, got an object"},
      {"'stepId':'a\\u0000b'", "stepId: expected a string without NUL, got one with it"},
  };
  assert_all_refused(rows, sizeof rows / sizeof *rows, "{", ",'kind':'shutdown'}", STEP_NIL_ID);
  assert_all_refused(rows, sizeof rows / sizeof *rows, "{", ",'kind':'cancel'}", STEP_NIL_ID);
}

TEST(a_rejected_cancel_does_not_answer_the_step_it_names) {
  static const struct refusal rows[] = {
      {"{'stepId':'s','kind':'cancel','schemaVersion':0.5}",
       "schemaVersion: expected a whole number of 32 bits, got 0.5"},
      {"{'schemaVersion':'1','kind':'CANCEL','stepId':'s'}",
       "schemaVersion: expected a whole number of 32 bits, got a string"},
      {"{'stepId':'s','kind':' Cancel ','schemaVersion':0.5}",
       "schemaVersion: expected a whole number of 32 bits, got 0.5"},
      {"{'stepId':'s','kind':'cancel','x':1,'x':2}", "x: expected once, got it twice"},
  };
  assert_all_refused(rows, sizeof rows / sizeof *rows, "", "", STEP_NIL_ID);
}

TEST(a_policy_is_read_with_all_of_its_fields) {
  static const char json[] =
      "{'stepId':'s','command':'c','fence':{'writePaths':[],'network':'ports','tcpConnect':[443,80]"
      ",'tcpBind':[0],'bestEffort':true},'limits':{'memoryBytes':1024,'coreBytes':0}}";
  struct step step;
  struct error error;
  uint16_t ports[2];
  assert_int_equal(parse(&step, json, &error), 0);
  assert_non_null(step.fence);
  assert_non_null(step.fence->write_paths);
  assert_null(step.fence->write_paths[0]);
  assert_null(step.fence->read_paths);
  assert_int_equal(step.fence->network, POLICY_NETWORK_PORTS);
  assert_int_equal(step.fence->tcp_connect.length, sizeof ports);
  memcpy(ports, step.fence->tcp_connect.text, sizeof ports);
  assert_int_equal(ports[0], 443);
  assert_int_equal(ports[1], 80);
  assert_int_equal(step.fence->tcp_bind.length, sizeof *ports);
  assert_true(step.fence->best_effort);
  assert_int_equal(step.limits->memory_bytes, 1024);
  assert_int_equal(step.limits->open_files, 0);
  step_release(&step);
  assert_int_equal(parse(&step, "{'stepId':'s','command':'c','fence':null}", &error), 0);
  assert_null(step.fence);
  assert_null(step.limits);
  step_release(&step);
}

TEST(an_id_may_be_long_but_not_too_long) {
  char id[STEP_ID_MAX + 2];
  struct step step;
  struct error error;
  memset(id, 'i', sizeof id);
  id[STEP_ID_MAX] = '\0';
  const char *json = formatted("{'stepId':'%s','kind':'shutdown'}", id);
  assert_int_equal(parse(&step, json, &error), 0);
  assert_string_equal(step.step_id, id);
  step_release(&step);

  id[STEP_ID_MAX] = 'i';
  id[STEP_ID_MAX + 1] = '\0';
  json = formatted("{'stepId':'%s','kind':'shutdown'}", id);
  assert_refused(json, strlen(json), "stepId: expected at most 1024 bytes, got 1025", STEP_NIL_ID);

  /* Even an ID of escapes is echoed. */
  char escaped[8 * STEP_ID_MAX];
  char *end = stpcpy(escaped, "{'stepId':'");
  for (size_t i = 0; i < STEP_ID_MAX; i++)
    end = stpcpy(end, "\\u0069");
  strcpy(end, "','kind':1,}");
  id[STEP_ID_MAX] = '\0';
  assert_int_equal(parse(&step, escaped, &error), -1);
  assert_string_equal(step.step_id, id);
  step_release(&step);
}

/* `part` is repeated in an unknown field. */
static void expect_counted(const char *part, size_t count, const char *message) {
  struct buffer text = {0};
  buffer_add_string(&text, "{'stepId':'s','kind':'shutdown','x':[1");
  for (size_t i = 0; i < count; i++)
    buffer_add_string(&text, part);
  if (part[1] != '[')
    buffer_add_string(&text, "]}");
  buffer_add(&text, "", 1);
  assert_refused(text.bytes, text.length - 1, message, "s");
  buffer_release(&text);
}

TEST(the_nesting_and_the_number_of_values_are_limited) {
  expect_counted(",[1", 62, "payload: expected JSON, got invalid or truncated text near byte 223");
  expect_counted(",[1", 63, "payload: expected at most 64 levels of nesting, got more at byte 225");
  expect_counted(",1", 200000, "payload: expected at most 200000 values, got more");
}

/* A long name or kind is shortened, so that the message is complete. */
TEST(error_messages_are_short) {
  static const char *const around[][3] = {
      {"{'stepId':'s','command':'x','env':{'", "':1}}", ""},
      {"{'stepId':'s','command':'x','env':{'", "\\u0000':''}}", ""},
      {"{'stepId':'s','", "':1,'", "':2}"},
  };
  static char name[100001];
  static char json[250000];
  memset(name, 'n', sizeof name - 1);
  for (size_t i = 0; i < sizeof around / sizeof around[0]; i++) {
    const char *const *parts = around[i];
    (void)snprintf(json, sizeof json, "%s%s%s%s%s", parts[0], name, parts[1],
                   parts[2][0] != '\0' ? name : "", parts[2]);
    struct step step;
    struct error error;
    assert_int_equal(parse(&step, json, &error), -1);
    assert_true(strlen(error.text) < 160);
    assert_non_null(strstr(error.text, "nnn..."));
    step_release(&step);
  }
}
