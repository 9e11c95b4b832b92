#include <limits.h>

#include "tests/test.h"
#include "wire/step_report.h"

#define ID "11111111-1111-1111-1111-111111111111"

static void assert_writes(const struct step_result *self, const char *json) {
  size_t length = step_result_length(self);
  /* An exact buffer, for the sanitizer. */
  char *out = malloc(length);
  assert_non_null(out);
  assert_ptr_equal(step_result_write(self, out), out + length);
  if (length != strlen(json) || memcmp(out, json, length) != 0)
    fail_msg("%.*s, not %s", (int)length, out, json);
  free(out);
}

static const struct step_usage usage = {.max_rss_bytes = 63791104,
                                        .user_us = 7999,
                                        .system_us = 85000,
                                        .read_bytes = 696320,
                                        .written_bytes = 10493952,
                                        .major_faults = 2,
                                        .voluntary_switches = 114,
                                        .involuntary_switches = 23,
                                        .processes = 4};

TEST(a_result_matches_the_golden_file) {
  char golden[1024] = "";
  FILE *file = fopen("tests/unit/golden/step_result.json", "r");
  assert_non_null(file);
  assert_true(fread(golden, 1, sizeof golden - 1, file) > 0);
  assert_int_equal(fclose(file), 0);
  const struct step_result self = {.schema_version = 1,
                                   .step_id = ID,
                                   .duration_ms = 1230,
                                   .output_content = "Cloning into '.'...\n",
                                   .output_content_length = 20,
                                   .event_count = 3,
                                   .end = {.usage = &usage,
                                           .oom_kills = 0,
                                           .memory_limit_bytes = 104857600,
                                           .memory_peak_bytes = -1}};
  assert_writes(&self, golden);
}

static void assert_ends(const struct result_end *end, const char *json) {
  const struct step_result self = {
      .schema_version = 1, .step_id = "s", .event_count = 2, .end = *end};
  assert_writes(&self, quoted(formatted("{'schemaVersion':1,'stepId':'s','exitCode':0,"
                                        "'timedOut':false,'durationSeconds':0,'errorMessage':null,"
                                        "'outputContent':null,'eventCount':2,'end':%s}",
                                        json)));
}

TEST(unknown_figures_are_omitted) {
  static const struct step_usage unknown = {-1, -1, -1, -1, -1, -1, -1, -1, -1};
  const struct result_end end = {
      .usage = &unknown, .oom_kills = -1, .memory_limit_bytes = -1, .memory_peak_bytes = -1};
  assert_ends(&end, "{'cause':'exited','survivors':0}");
}

TEST(an_out_of_memory_kill_is_reported) {
  const struct result_end end = {.cause = STEP_CAUSE_SIGNAL,
                                 .signal = 9,
                                 .signal_name = "SIGKILL",
                                 .usage = &usage,
                                 .oom_kills = 1,
                                 .oom_killed = true,
                                 .memory_limit_bytes = 104857600,
                                 .memory_peak_bytes = 104857600,
                                 .survivors = 2,
                                 .holder = 7,
                                 .holder_command = "sleep 1000"};
  assert_ends(&end, "{'cause':'signal','signal':9,'signalName':'SIGKILL','coreDumped':false,"
                    "'oomKilled':true,'oomKills':1,'maxRssBytes':63791104,'userCpuSeconds':0.007,"
                    "'systemCpuSeconds':0.085,'readBytes':696320,'writtenBytes':10493952,"
                    "'majorFaults':2,'voluntarySwitches':114,'involuntarySwitches':23,"
                    "'processes':4,'memory':{'limitBytes':104857600,'peakBytes':104857600},"
                    "'survivors':2,'heldBy':{'pid':7,'command':'sleep 1000'}}");
}

TEST(each_limit_is_a_cause) {
  static const struct {
    enum step_cause cause;
    const char *name;
  } rows[] = {{STEP_CAUSE_MEMORY_LIMIT, "memoryLimit"},
              {STEP_CAUSE_PROCESS_LIMIT, "processLimit"},
              {STEP_CAUSE_CPU_LIMIT, "cpuLimit"},
              {STEP_CAUSE_FILE_SIZE_LIMIT, "fileSizeLimit"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    assert_ends(&(struct result_end){.cause = rows[i].cause},
                formatted("{'cause':'%s'}", rows[i].name));
}

TEST(the_signal_of_a_limit_is_reported) {
  static const struct step_usage unknown = {-1, -1, -1, -1, -1, -1, -1, -1, -1};
  const struct result_end end = {.cause = STEP_CAUSE_CPU_LIMIT,
                                 .signal = 24,
                                 .signal_name = "SIGXCPU",
                                 .usage = &unknown,
                                 .oom_kills = -1,
                                 .memory_limit_bytes = -1,
                                 .memory_peak_bytes = -1};
  assert_ends(&end, "{'cause':'cpuLimit','signal':24,'signalName':'SIGXCPU','coreDumped':false,"
                    "'survivors':0}");
}

#define RESULT_OF_S "{'schemaVersion':1,'stepId':'s','exitCode':%d,'timedOut':false,"

TEST(texts_may_be_any_bytes) {
  const struct step_result self = {.schema_version = 1,
                                   .step_id = "\"\n",
                                   .exit_code = 137,
                                   .error_message = "\0\xFF",
                                   .error_message_length = 2,
                                   .output_content = "\\ \xE2\x82\xAC\xE2\x82",
                                   .output_content_length = 7,
                                   .event_count = -1};
  assert_writes(&self,
                quoted("{'schemaVersion':1,'stepId':'\\'\\n','exitCode':137,"
                       "'timedOut':false,'durationSeconds':0,"
                       "'errorMessage':'\\u0000\xEF\xBF\xBD',"
                       "'outputContent':'\\\\ "
                       "\xE2\x82\xAC\xEF\xBF\xBD','eventCount':null,'end':{'cause':'exited'}}"));
}

TEST(truncated_output_follows_the_other_fields) {
  struct step_result self = {.schema_version = 2,
                             .step_id = "s",
                             .output_content = "a\n",
                             .output_content_length = 2,
                             .event_count = 5,
                             .output_tail = "\xC3\xA9\n\xFF\n\"",
                             .output_tail_length = 6,
                             .output_bytes = UINT64_MAX};
  assert_writes(&self,
                quoted("{'schemaVersion':2,'stepId':'s','exitCode':0,'timedOut':false,"
                       "'durationSeconds':0,'errorMessage':null,'outputContent':'a\\n',"
                       "'eventCount':5,'outputTruncated':true,"
                       "'outputBytes':18446744073709551615,"
                       "'outputTail':'\xC3\xA9\\n\xEF\xBF\xBD\\n\\\"','end':{'cause':'exited'}}"));
}

TEST(numbers_have_their_shortest_form) {
  static const struct {
    int exit_code;
    int64_t ms;
    const char *seconds;
    int64_t count;
    const char *count_text;
  } rows[] = {
      {INT_MIN, 0, "0", 0, "0"},
      {INT_MAX, 1, "0.001", 1, "1"},
      {0, 12, "0.012", 10, "10"},
      {0, 100, "0.1", 1000002, "1000002"},
      {0, 120, "0.12", INT64_MAX, "9223372036854775807"},
      {0, 999, "0.999", -1, "null"}, /* unknown */
      {0, 1000, "1", INT64_MIN, "null"},
      {0, 10000, "10", 0, "0"},
      {0, 1230, "1.23", 0, "0"},
      {0, 600000, "600", 0, "0"},
      {0, 600010, "600.01", 0, "0"},
      {0, INT64_MAX, "9223372036854775.807", 0, "0"},
      {0, -5, "0", 0, "0"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const char *json =
        formatted(RESULT_OF_S "'durationSeconds':%s,'errorMessage':null,'outputContent':null,"
                              "'eventCount':%s,'end':{'cause':'exited'}}",
                  rows[i].exit_code, rows[i].seconds, rows[i].count_text);
    const struct step_result self = {.schema_version = 1,
                                     .step_id = "s",
                                     .exit_code = rows[i].exit_code,
                                     .duration_ms = rows[i].ms,
                                     .event_count = rows[i].count};
    assert_writes(&self, quoted(json));
  }
}
