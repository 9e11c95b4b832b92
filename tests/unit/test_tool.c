#include "agent/kinds/kind.h"
#include "agent/tools/tool.h"
#include "tests/test.h"
#include "wire/json.h"
#include "wire/step.h"

static const struct tool_settings settings = {
    .limits = {.timeout_default = 30, .timeout_maximum = 600},
    .directory = "/box",
    .shell = "bash"};

/* Parses arguments like a frontend, with quotes as in quoted.h. */
static cJSON *parse(const char *json) {
  struct error error;
  const char *text = quoted(json);
  cJSON *tree = json_tree_parse(text, strlen(text), &error);
  assert_non_null(tree);
  return tree;
}

static struct tool_call *call_with(const struct tool_settings *with, const char *tool,
                                   const char *json, struct buffer *text) {
  cJSON *arguments = parse(json);
  struct tool_call *call = tool_call_new(tool_find(tool), arguments, with, "id-1", text);
  cJSON_Delete(arguments);
  buffer_add(text, "", 1);
  return call;
}

/* Fails unless it is the step that this JSON means; ignores whether it is for a model. Compares
   both in their wire format, which is complete. */
static void assert_same_step(const struct step *step, const char *json) {
  struct step expected;
  struct error error;
  struct buffer own = {0}, its = {0};
  if (step_parse(&expected, kinds, json, strlen(json), &error) != 0)
    fail_msg("%s", error.text);
  expected.for_model = step->for_model;
  step_pack(step, kinds, &own);
  step_pack(&expected, kinds, &its);
  assert_int_equal(own.length, its.length);
  assert_memory_equal(own.bytes, its.bytes, own.length);
  step_release(&expected);
  buffer_release(&own);
  buffer_release(&its);
}

static void assert_step_with(const struct tool_settings *with, const char *tool, const char *json,
                             const char *expected) {
  struct buffer text = {0};
  struct tool_call *call = call_with(with, tool, json, &text);
  if (call == NULL) {
    fail_msg("refused: %s", text.bytes);
    return;
  }
  assert_int_equal(text.length, 1);
  struct request request = {.user_data = call};
  tool_call_request(call, &request);
  assert_ptr_equal(request.user_data, call);
  assert_same_step(&request.step, quoted(expected));
  assert_int_equal(request.step.timeout_seconds, call->timeout);
  step_release(&request.step);
  tool_call_free(call);
  buffer_release(&text);
}

static void assert_step(const char *tool, const char *json, const char *expected) {
  assert_step_with(&settings, tool, json, expected);
}

static void assert_refused_with(const struct tool_settings *with, const char *tool,
                                const char *json, const char *expected) {
  struct buffer text = {0};
  struct tool_call *call = call_with(with, tool, json, &text);
  if (call != NULL)
    fail_msg("accepted: %s", json);
  assert_string_equal(text.bytes, quoted(expected));
  buffer_release(&text);
}

static void assert_refused(const char *tool, const char *json, const char *expected) {
  assert_refused_with(&settings, tool, json, expected);
}

/* --- the table --- */

TEST(the_seven_tools_have_a_fixed_order) {
  static const char names[] =
      "execute_command read_file write_file edit_file list_directory grep directory_tree";
  size_t count = 0;
  for (; nth_word(names, count) != NULL; count++) {
    const struct tool *tool = tool_at(count);
    assert_string_equal(tool->name, nth_word(names, count));
    assert_ptr_equal(tool_find(nth_word(names, count)), tool);
    assert_true(strlen(tool->description) > 20 && strlen(tool->description) < 2048);
    assert_int_equal(tool_is_command(tool), count == 0);
  }
  assert_int_equal(count, 7);
  assert_null(tool_at(7));
  assert_null(tool_find("shell"));
}

static cJSON *schema_of(const char *tool, const struct tool_settings *with) {
  struct buffer text = {0};
  argument_table_schema(&tool_find(tool)->arguments, &with->limits, &text);
  cJSON *schema = cJSON_ParseWithLength(text.bytes, text.length);
  assert_non_null(schema);
  buffer_release(&text);
  return schema;
}

/* Removes the descriptions, which must all be there. */
static void strip(cJSON *schema) {
  cJSON *property;
  cJSON_ArrayForEach(property, cJSON_GetObjectItem(schema, "properties")) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(property, "description"));
    assert_true(text != NULL && strlen(text) > 10);
    cJSON_DeleteItemFromObject(property, "description");
    if (cJSON_HasObjectItem(property, "items"))
      strip(cJSON_GetObjectItem(property, "items"));
  }
}

static void assert_schema(const char *tool, const char *properties, const char *required) {
  cJSON *schema = schema_of(tool, &settings);
  strip(schema);
  char *text = cJSON_PrintUnformatted(schema);
  assert_string_equal(text, formatted("{\"type\":\"object\",\"properties\":{%s},\"required\":[%s]}",
                                      quoted(properties), quoted(required)));
  cJSON_free(text);
  cJSON_Delete(schema);
}

#define STRING "{'type':'string'}"
#define INTEGER "{'type':'integer'}"
#define STRINGS "{'type':'array','items':{'type':'string'}}"

TEST(schemas_have_the_documented_properties) {
  assert_schema("execute_command",
                "'command':" STRING ",'args':" STRINGS ",'workdir':" STRING ",'timeout':" INTEGER
                ",'env':" STRINGS ",'stdin':" STRING,
                "'command'");
  assert_schema("read_file", "'path':" STRING ",'offset':" INTEGER ",'limit':" INTEGER, "'path'");
  assert_schema("write_file", "'path':" STRING ",'content':" STRING, "'path','content'");
  assert_schema("edit_file",
                "'path':" STRING ",'edits':{'type':'array','items':{'type':'object',"
                "'properties':{'old_string':" STRING ",'new_string':" STRING
                ",'replace_all':{'type':'boolean'}},'required':['old_string','new_string']}}",
                "'path','edits'");
  assert_schema("list_directory", "'path':" STRING, "'path'");
  assert_schema("grep",
                "'pattern':" STRING ",'path':" STRING ",'glob':" STRING
                ",'search_hidden':{'type':'boolean'},'output_mode':{'type':"
                "'string','enum':['content','files_with_matches','count']},"
                "'head_limit':" INTEGER ",'context_before':" INTEGER ",'context_after':" INTEGER,
                "'pattern'");
  assert_schema("directory_tree", "'path':" STRING ",'max_depth':" INTEGER ",'exclude':" STRINGS,
                "");
}

TEST(the_schema_has_the_timeouts_of_the_settings) {
  struct tool_settings with = settings;
  with.limits.timeout_maximum = 90;
  with.limits.timeout_default = 120;
  cJSON *schema = schema_of("execute_command", &with);
  const cJSON *timeout = cJSON_GetObjectItem(cJSON_GetObjectItem(schema, "properties"), "timeout");
  assert_non_null(
      strstr(cJSON_GetObjectItem(timeout, "description")->valuestring, "(default 90, at most 90)"));
  cJSON_Delete(schema);
}

/* --- steps --- */

#define STEP(KIND) "{'schemaVersion':1,'stepId':'id-1','kind':'" KIND "','workingDirectory':"

TEST(a_program_with_arguments_needs_no_shell) {
  assert_step("execute_command", "{'command':'ls','args':['-l','a b','']}",
              STEP("run") "'/box','timeoutSeconds':30,'command':'ls','args':['-l','a b','']}");
  struct tool_settings with = settings;
  with.shell = NULL;
  assert_step_with(&with, "execute_command", "{'command':'ls','args':[]}",
                   STEP("run") "'/box','timeoutSeconds':30,'command':'ls','args':[]}");
  assert_refused_with(&with, "execute_command", "{'command':'ls'}",
                      "Error: no shell (bash, sh) in this image; give args to run a program "
                      "directly");
}

TEST(an_empty_list_of_arguments_is_ignored) {
  assert_step("execute_command", "{'command':'ls -l','args':[]}",
              STEP("run") "'/box','timeoutSeconds':30,'command':'bash','args':['-c','ls -l']}");
}

TEST(a_command_gets_its_workdir_timeout_env_and_stdin) {
  assert_step("execute_command",
              "{'command':'x','args':['y'],'workdir':'a/b','timeout':30.0,"
              "'env':['A=1','B=','C=x=y'],'stdin':'in\\n\\u0000'}",
              STEP("run") "'/box/a/b','timeoutSeconds':30,'command':'x','args':['y'],"
                          "'env':{'A':'1','B':'','C':'x=y'},'stdin':'in\\n\\u0000'}");
  assert_step("execute_command",
              "{'command':'x','args':['y'],'workdir':'/tmp','timeout':600,'stdin':''}",
              STEP("run") "'/tmp','timeoutSeconds':600,'command':'x','args':['y'],'stdin':''}");
  assert_step("execute_command", "{'command':'x','args':['y'],'workdir':'','env':[]}",
              STEP("run") "'/box','timeoutSeconds':30,'command':'x','args':['y'],'env':{}}");
}

TEST(steps_of_grep_have_its_defaults) {
  assert_step("grep", "{'pattern':'x'}",
              STEP("grep") "'/box','timeoutSeconds':30,'pattern':'x','path':'.',"
                           "'searchHidden':false,'headLimit':200,'prefixPaths':true}");
  assert_step("grep",
              "{'pattern':'x','path':'src','glob':'*.c','search_hidden':true,'output_mode':'"
              "files_with_matches',"
              "'head_limit':1000,'context_before':0,'context_after':100}",
              STEP("grep") "'/box','timeoutSeconds':30,'pattern':'x','path':'src',"
                           "'glob':'*.c','searchHidden':true,'outputMode':'filesWithMatches','"
                           "headLimit':1000,"
                           "'contextBefore':0,'contextAfter':100,'prefixPaths':true}");
  assert_step("grep", "{'pattern':'x','path':'','output_mode':null}",
              STEP("grep") "'/box','timeoutSeconds':30,'pattern':'x','path':'.',"
                           "'searchHidden':false,'headLimit':200,'prefixPaths':true}");
}

TEST(a_tree_needs_no_arguments) {
  struct buffer text = {0};
  struct tool_call *call =
      tool_call_new(tool_find("directory_tree"), NULL, &settings, "id-1", &text);
  assert_non_null(call);
  tool_call_free(call);
  assert_step("directory_tree", "{}",
              STEP("directoryTree") "'/box','timeoutSeconds':30,'path':'.'}");
  assert_step("directory_tree", "{'path':'a','max_depth':32,'exclude':['*.o','b']}",
              STEP("directoryTree") "'/box','timeoutSeconds':30,'path':'a','maxDepth':32,"
                                    "'excludeGlobs':['*.o','b']}");
}

/* --- refused arguments --- */

TEST(the_error_of_an_unknown_argument_lists_the_known_ones) {
  assert_refused("execute_command", "{'command':'x','cwd':'y'}",
                 "Error: unknown argument `cwd` (execute_command takes command, args, workdir, "
                 "timeout, env, stdin)");
  assert_refused("grep", "{'-n':null}",
                 "Error: unknown argument `-n` (grep takes pattern, path, glob, search_hidden, "
                 "output_mode, head_limit, context_before, context_after)");
  assert_refused("edit_file", "{'path':'a','edits':[{'oldString':'x'}]}",
                 "Error: unknown argument `edits[0].oldString` (edits takes old_string, "
                 "new_string, replace_all)");
}

TEST(a_missing_required_argument_is_named) {
  assert_refused("execute_command", "{}", "Error: command: required");
  assert_refused("execute_command", "{'command':null}", "Error: command: required");
  assert_refused("write_file", "{'path':'x'}", "Error: content: required");
  assert_refused("edit_file", "{'path':'a','edits':[{'old_string':'x'}]}",
                 "Error: edits[0].new_string: required");
}

TEST(numbers_must_be_whole_and_in_range) {
  static const char *const rows[][2] = {{"'30 s'", "an integer"},
                                        {"''", "an integer"},
                                        {"'030'", "an integer"},
                                        {"'true'", "an integer"},
                                        {"'601'", "an integer from 1 to 600"},
                                        {"30.5", "an integer"},
                                        {"true", "an integer"},
                                        {"1e300", "an integer"},
                                        {"-1e999", "an integer"},
                                        {"[1]", "an integer"},
                                        {"0", "an integer from 1 to 600"},
                                        {"601", "an integer from 1 to 600"},
                                        {"-1", "an integer from 1 to 600"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    assert_refused("execute_command", formatted("{'command':'x','timeout':%s}", rows[i][0]),
                   formatted("Error: timeout: expected %s", rows[i][1]));
  assert_refused("read_file", "{'path':'a','offset':9007199254740993}",
                 "Error: offset: expected an integer");
  assert_refused("read_file", "{'path':'a','offset':0}",
                 "Error: offset: expected an integer of at least 1");
  assert_refused("grep", "{'pattern':'a','head_limit':1001}",
                 "Error: head_limit: expected an integer from 1 to 1000");
  assert_refused("grep", "{'pattern':'a','context_after':-1}",
                 "Error: context_after: expected an integer from 0 to 100");
}

TEST(a_timeout_out_of_range_may_be_clamped) {
  static const struct {
    const char *given;
    unsigned taken;
  } rows[] = {{"0", 1}, {"-5", 1}, {"1", 1}, {"30.0", 30}, {"601", 600}, {"9000000000", 600}};
  struct tool_settings with = settings;
  with.limits.clamps_timeout = true;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct buffer text = {0};
    struct tool_call *call = call_with(
        &with, "execute_command", formatted("{'command':'x','timeout':%s}", rows[i].given), &text);
    assert_int_equal(call->timeout, rows[i].taken);
    assert_true(tool_is_command(call->tool));
    tool_call_free(call);
    buffer_release(&text);
  }
  assert_refused_with(&with, "execute_command", "{'command':'x','timeout':'thirty'}",
                      "Error: timeout: expected an integer");
}

/* The form in which many models send them. */
TEST(a_text_may_stand_for_a_number_a_flag_or_an_array) {
  assert_step("execute_command",
              "{'command':'x','args':'[\\'a b\\',\\'\\']','timeout':' 3e1 ','env':'[\\'A=1\\']'}",
              STEP("run") "'/box','timeoutSeconds':30,'command':'x','args':['a b',''],"
                          "'env':{'A':'1'}}");
  assert_step("grep", "{'pattern':'5','search_hidden':'True','head_limit':'7'}",
              STEP("grep") "'/box','timeoutSeconds':30,'pattern':'5','path':'.',"
                           "'searchHidden':true,'headLimit':7,'prefixPaths':true}");
  assert_step("edit_file",
              "{'path':'f','edits':'[{\\'old_string\\':\\'1\\',\\'new_string\\':\\'true\\',"
              "\\'replace_all\\':\\'false\\'}]'}",
              STEP("editFile") "'/box','timeoutSeconds':30,'path':'f','edits':[{'oldString':'1',"
                               "'newString':'true','replaceAll':false}]}");
  assert_refused("edit_file", "{'path':'f','edits':'[{\\'old\\':1}]'}",
                 "Error: unknown argument `edits[0].old` (edits takes old_string, new_string, "
                 "replace_all)");
  assert_refused("edit_file", "{'path':'f','edits':'[1]'}", "Error: edits[0]: expected an object");
  assert_refused("edit_file", "{'path':'f','edits':'{}'}",
                 "Error: edits: expected an array of objects");
  assert_refused("edit_file", "{'path':'f','edits':'[{\\'old_string\\':\\'1\\',]'}",
                 "Error: edits: expected JSON, got invalid or truncated text near byte 19");
}

/* Only a shell would expand the variable. */
TEST(a_variable_in_path_is_rejected) {
  static const char *const values[] = {"/opt/bin:$PATH", "${PATH}:/opt/bin"};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    assert_refused("execute_command", formatted("{'command':'x','env':['PATH=%s']}", values[i]),
                   "Error: env.PATH: $PATH is not expanded here; name all directories, or set PATH "
                   "in the command line");
  assert_step("execute_command", "{'command':'x','args':['y'],'env':['PATHS=$PATH']}",
              STEP("run") "'/box','timeoutSeconds':30,'command':'x','args':['y'],"
                          "'env':{'PATHS':'$PATH'}}");
}

TEST(values_must_be_of_their_type) {
  static const char *const rows[][3] = {
      {"read_file", "{'path':1}", "path: expected a string"},
      {"read_file", "{'path':''}", "path: expected a non-empty string"},
      {"read_file", "{'path':'a\\u0000'}", "path: expected a string without NUL"},
      {"write_file", "{'path':'a','content':[]}", "content: expected a string"},
      {"execute_command", "{'command':'x','args':'y'}", "args: expected an array of strings"},
      {"execute_command", "{'command':'x','args':['y',1]}", "args[1]: expected a string"},
      {"execute_command", "{'command':'x','env':['A=1','A']}", "env[1]: expected NAME=value"},
      {"execute_command", "{'command':'x','env':['=1']}", "env[0]: expected NAME=value"},
      {"execute_command", "{'command':'x','env':{'A':'1'}}", "env: expected an array of strings"},
      {"execute_command", "{'command':'x','env':['A=1','A=2']}",
       "env.A: expected once, got it twice"},
      {"execute_command", "{'command':'x','command':'y'}", "command: expected once, got it twice"},
      {"grep", "{'pattern':'x','output_mode':'lines'}",
       "output_mode: expected content, files_with_matches or count"},
      {"edit_file", "{'path':'a','edits':{}}", "edits: expected an array of objects"},
      {"edit_file", "{'path':'a','edits':[]}", "edits: expected at least one"},
      {"edit_file", "{'path':'a','edits':['x']}", "edits[0]: expected an object"},
      {"edit_file", "{'path':'a','edits':[{'old_string':'x','new_string':'y','replace_all':1}]}",
       "edits[0].replace_all: expected true or false"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    assert_refused(rows[i][0], rows[i][1], formatted("Error: %s", rows[i][2]));
}
