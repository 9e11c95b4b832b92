/* The kinds of step that work on files: wire/PROTOCOL.md. */

#include <sys/socket.h>
#include <sys/un.h>

#include "tests/support/job.h"
#include "tests/support/kind_rows.h"
#include "tests/test.h"

#define READ "'kind':'readFile','path':"
#define WRITE "'kind':'writeFile','path':"
#define EDIT "'kind':'editFile','path':"
#define TREE "'kind':'directoryTree','path':"
#define LIST "'kind':'listFiles','path':"
#define GREP "'kind':'grep','path':"

JOB_TEST(a_missing_file_or_one_of_another_type_is_an_error) {
  assert_int_equal(mkdir(kind_rows_path(job, "directory"), 0777), 0);
  assert_int_equal(mkfifo(kind_rows_path(job, "fifo"), 0666), 0);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, kind_rows_path(job, "socket"), sizeof address.sun_path - 1);
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
  assert_int_equal(symlink("loop", kind_rows_path(job, "loop")), 0);
  kind_rows_file(job, "binary", "a\xFF\n");
  kind_rows_file(job, "file", "");
  static const struct kind_row rows[] = {
      {READ "'none'", 1, NULL, "file not found: $D/none"},
      {READ "'no/such/$$file'", 1, NULL, "file not found: $D/no/such/$$file"},
      {READ "'$D/none'", 1, NULL, "file not found: $D/none"},
      {READ "'binary/below'", 1, NULL, "file not found: $D/binary/below"},
      {READ "'binary'", 1, NULL, "binary or non-UTF-8 content not supported"},
      {READ "'directory'", 1, NULL, "is a directory, not a regular file: $D/directory"},
      {READ "'fifo'", 1, NULL, "is a FIFO, not a regular file: $D/fifo"},
      {READ "'socket'", 1, NULL, "is a socket, not a regular file: $D/socket"},
      {READ "'/dev/zero'", 1, NULL, "is a character device, not a regular file: /dev/zero"},
      {WRITE "'directory','content':'x'", 1, NULL,
       "is a directory, not a regular file: $D/directory"},
      {WRITE "'fifo','content':'x'", 1, NULL, "is a FIFO, not a regular file: $D/fifo"},
      {WRITE "'/dev/null','content':'x'", 1, NULL,
       "is a character device, not a regular file: /dev/null"},
      {WRITE "'file/below','content':'x'", 1, NULL,
       "cannot write file (Not a directory): $D/file/below"},
      {TREE "'none'", 1, NULL, "directory not found: $D/none"},
      {TREE "'file'", 1, NULL, "is a regular file, not a directory: $D/file"},
      {LIST "'directory'", 0, "[]", NULL},
      {LIST "'none'", 1, NULL, "directory not found: $D/none"},
      {LIST "'file'", 1, NULL, "is a regular file, not a directory: $D/file"},
      {GREP "'fifo','pattern':'x'", 1, NULL, "is a FIFO, not a regular file: $D/fifo"},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
  /* The text of this error depends on the C library. */
  const cJSON *result = job_run(job, kind_rows_step(job, READ "'loop'"));
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 1);
  job_expect_part(job, result, "errorMessage", "cannot read file (");
  close(listener);
}

/* A model mainly needs the name of the file, so the middle of a long path is omitted. */
JOB_TEST(a_long_path_is_cut_in_its_middle) {
  char path[400];
  memset(path, 'd', sizeof path);
  for (size_t i = 100; i < sizeof path; i += 100)
    path[i] = '/';
  memcpy(path + sizeof path - 12, "/Program.cs", 12);
  const cJSON *step = kind_rows_step(job, job_format(job, READ "'%s'", path));
  const cJSON *result = job_run(job, step);
  const char *message = job_text(result, "errorMessage");
  const char *begin = job_format(job, "file not found: %s/ddd", kind_rows_directory(job));
  assert_memory_equal(message, begin, strlen(begin));
  assert_string_equal(message + strlen(message) - 14, "ddd/Program.cs");
  assert_non_null(strstr(message, "d\u2026d"));
  assert_string_equal(job_lines(job, step, "stderr"), job_format(job, "%s\n", message));
}

/* --- readFile --- */

JOB_TEST(read_file_returns_the_text_unchanged) {
  kind_rows_file(job, "text", "one\ntwo\r\n\n  four \"\\");
  kind_rows_file(job, "empty", "");
  kind_rows_file(job, "mark", "\xEF\xBB\xBFone\n");
  kind_rows_file(job, "sub/caf\xC3\xA9", "\xF0\x9F\x98\x80\n");
  assert_int_equal(symlink("sub/caf\xC3\xA9", kind_rows_path(job, "link")), 0);
  static const struct kind_row rows[] = {
      {READ "'text'", 0, "one\ntwo\r\n\n  four '\\", NULL},
      {READ "'$D/text'", 0, "one\ntwo\r\n\n  four '\\", NULL},
      {READ "'./sub/../text'", 0, "one\ntwo\r\n\n  four '\\", NULL},
      {READ "'empty'", 0, "", NULL},
      {READ "'mark'", 0, "one\n", NULL},
      {READ "'sub/caf\\u00e9'", 0, "\xF0\x9F\x98\x80\n", NULL},
      {READ "'link'", 0, "\xF0\x9F\x98\x80\n", NULL},
      {READ "'/proc/self/comm'", 0, "readFile\n", NULL},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST(read_file_returns_the_chosen_lines_with_numbers) {
  kind_rows_file(job, "ten", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n");
  static const struct kind_row rows[] = {
      {READ "'ten','startLine':9", 0, "i\nj\n", NULL},
      {READ "'ten','startLine':2,'lineCount':1", 0, "b", NULL},
      {READ "'ten','lineCount':2", 0, "a\nb", NULL},
      {READ "'ten','startLine':0,'lineCount':0", 0, "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n", NULL},
      {READ "'ten','startLine':-3,'lineCount':1", 0, "a", NULL},
      {READ "'ten','startLine':2147483647,'lineCount':2147483647", 0, "", NULL},
      {READ "'ten','startLine':9,'withLineNumbers':true", 0, " 9\ti\n10\tj\n11\t", NULL},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
}

/* Servers depend on these bytes: the text after the last newline counts as a line, even if it is
   empty. */
JOB_TEST(read_file_numbers_the_empty_line_after_the_last_newline) {
  kind_rows_file(job, "foo", "foo\n");
  kind_rows_file(job, "empty", "");
  kind_rows_file(job, "eight", "line 1\nline 2\nline 3\nline 4\nline 5\nline 6\nline 7\nline 8\n");
  static const struct kind_row rows[] = {
      {READ "'foo'", 0, "foo\n", NULL},
      {READ "'foo','withLineNumbers':true", 0, "1\tfoo\n2\t", NULL},
      {READ "'foo','startLine':2", 0, "", NULL},
      {READ "'foo','startLine':2,'withLineNumbers':true", 0, "2\t", NULL},
      {READ "'empty','withLineNumbers':true", 0, "1\t", NULL},
      {READ "'eight','startLine':5,'lineCount':3", 0, "line 5\nline 6\nline 7", NULL},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST(read_file_can_return_the_media_type) {
  kind_rows_file(job, "text", "a\nb\n");
  kind_rows_file(job, "empty", "");
  kind_rows_file(job, "png", "\x89PNG\r\n\x1A\n");
  kind_rows_file(job, "latin", "caf\xE9");
  static const struct kind_row rows[] = {
      {READ "'text','withMediaType':true", 0, "text/plain\na\nb\n", NULL},
      {READ "'text','withMediaType':true,'startLine':2,'withLineNumbers':true", 0,
       "text/plain\n2\tb\n3\t", NULL},
      {READ "'empty','withMediaType':true", 0, "text/plain\n", NULL},
      {READ "'png','withMediaType':true,'startLine':2", 0, "image/png\niVBORw0KGgo=", NULL},
      {READ "'png','withMediaType':false", 1, NULL, "binary or non-UTF-8 content not supported"},
      {READ "'latin','withMediaType':true", 1, NULL, "binary or non-UTF-8 content not supported"},
      {READ "'none','withMediaType':true", 1, NULL, "file not found: $D/none"},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST(read_file_returns_at_most_one_mebibyte) {
  enum { MOST = 1048576 };
  char *content = malloc(MOST + 2);
  assert_non_null(content);
  memset(content, 'x', MOST + 1);
  content[MOST + 1] = '\0';
  kind_rows_file(job, "large", content);
  content[MOST] = '\0';
  kind_rows_file(job, "fits", content);
  const struct kind_row rows[] = {
      {READ "'fits'", 0, content, NULL},
      {READ "'large'", 1, NULL, "file exceeds 1 MB limit"},
      {READ "'large','withLineNumbers':true", 1, NULL, "file exceeds 1 MB limit"},
      {READ "'large','withMediaType':true", 1, NULL, "file exceeds 1 MB limit"},
      {READ "'large','lineCount':1", 1, NULL, "the chosen lines exceed 1 MB"},
      {EDIT "'large','edits':[{'oldString':'x','newString':'y'}]", 1, NULL,
       "file exceeds 1 MB limit"},
      {READ "'fits','lineCount':1", 0, content, NULL},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
  free(content);
}

/* One file is large because of a hole, which is read as NUL bytes. */
JOB_TEST(read_file_returns_lines_of_a_file_of_any_size) {
  enum { LINES = 140000 }; /* 140,000 lines of eight bytes have more than a mebibyte */
  char *content = malloc(LINES * 8 + 8);
  assert_non_null(content);
  for (size_t i = 1; i <= LINES; i++)
    assert_int_equal(snprintf(content + (i - 1) * 8, 9, "%07zu\n", i), 8);
  kind_rows_file(job, "lines", content);
  strcpy(content + LINES * 8, "\xFF\n");
  kind_rows_file(job, "broken", content);
  kind_rows_file(job, "image", "GIF89a\nb\n");
  kind_rows_file(job, "hole", "");
  FILE *file = fopen(kind_rows_path(job, "hole"), "a");
  assert_non_null(file);
  assert_int_equal(ftruncate(fileno(file), (off_t)300 << 20), 0);
  assert_true(fputs("\nb\n\xFF", file) >= 0);
  assert_int_equal(fclose(file), 0);
  content[131072 * 8] = '\0'; /* 1 MiB */
  const struct kind_row rows[] = {
      {READ "'lines','startLine':139999", 0, "0139999\n0140000\n", NULL},
      {READ "'lines','startLine':2,'lineCount':1", 0, "0000002", NULL},
      {READ "'lines','startLine':140002", 0, "", NULL},
      {READ "'lines','startLine':9,'lineCount':2,'withLineNumbers':true", 0,
       " 9\t0000009\n10\t0000010", NULL},
      {READ "'lines','startLine':140000,'withLineNumbers':true", 0, "140000\t0140000\n140001\t",
       NULL},
      {READ "'lines','startLine':2,'lineCount':1,'withMediaType':true", 0, "text/plain\n0000002",
       NULL},
      {READ "'lines','startLine':1", 1, NULL, "the chosen lines exceed 1 MB"},
      {READ "'lines','lineCount':131073", 1, NULL, "the chosen lines exceed 1 MB"},
      {READ "'broken','startLine':140000,'lineCount':1", 0, "0140000", NULL},
      {READ "'broken','startLine':140000", 1, NULL, "binary or non-UTF-8 content not supported"},
      {READ "'image','startLine':2,'lineCount':1,'withMediaType':true", 0, "text/plain\nb", NULL},
      {READ "'hole','startLine':2,'lineCount':1", 0, "b", NULL},
      {READ "'hole','lineCount':1", 1, NULL, "the chosen lines exceed 1 MB"},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
  free(content);
}

/* --- writeFile --- */

JOB_TEST(write_file_writes_the_content_unchanged) {
  kind_rows_file(job, "old", "much longer than the new one");
  static const struct kind_row rows[] = {
      {WRITE "'new','content':'one\\ntwo\\r\\n \\ud83d\\ude00 \\''", 0, NULL, NULL},
      {WRITE "'$D/old','content':'x'", 0, NULL, NULL},
      {WRITE "'empty','content':''", 0, NULL, NULL},
      {WRITE "'a/b/c/deep','content':'d'", 0, NULL, NULL},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
  assert_string_equal(kind_rows_content(job, "new"), "one\ntwo\r\n \xF0\x9F\x98\x80 \"");
  assert_string_equal(kind_rows_content(job, "old"), "x");
  assert_string_equal(kind_rows_content(job, "empty"), "");
  assert_string_equal(kind_rows_content(job, "a/b/c/deep"), "d");
}

JOB_TEST(write_file_keeps_mode_owner_mark_and_link) {
  kind_rows_file(job, "script", "old");
  assert_int_equal(chmod(kind_rows_path(job, "script"), 0751), 0);
  assert_int_equal(chown(kind_rows_path(job, "script"), 1234, 4321), 0);
  kind_rows_file(job, "mark", "\xEF\xBB\xBFold");
  kind_rows_file(job, "sub/target", "old");
  assert_int_equal(symlink("sub/target", kind_rows_path(job, "link")), 0);
  static const struct kind_row rows[] = {
      {WRITE "'script','content':'new'", 0, NULL, NULL},
      {WRITE "'mark','content':'new'", 0, NULL, NULL},
      {WRITE "'link','content':'new'", 0, NULL, NULL},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
  struct stat script;
  assert_int_equal(stat(kind_rows_path(job, "script"), &script), 0);
  assert_int_equal(script.st_mode & 07777, 0751);
  assert_int_equal(script.st_uid, 1234);
  assert_int_equal(script.st_gid, 4321);
  assert_string_equal(kind_rows_content(job, "mark"), "\xEF\xBB\xBFnew");
  assert_string_equal(kind_rows_content(job, "sub/target"), "new");
  struct stat link;
  assert_int_equal(lstat(kind_rows_path(job, "link"), &link), 0);
  assert_true(S_ISLNK(link.st_mode));
}

JOB_TEST(write_file_writes_at_most_ten_mebibytes) {
  enum { MOST = 10485760 };
  static const char before[] = WRITE "'large','content':'";
  char *fields = malloc(sizeof before + MOST + 2);
  assert_non_null(fields);
  memcpy(fields, before, sizeof before - 1);
  memset(fields + sizeof before - 1, 'x', MOST + 1);
  memcpy(fields + sizeof before - 1 + MOST + 1, "'", 2);
  const struct kind_row large = {fields, 1, NULL, "content exceeds 10 MB limit"};
  kind_rows_run(job, &large, 1);
  assert_int_not_equal(access(kind_rows_path(job, "large"), F_OK), 0);
  memcpy(fields + sizeof before - 1 + MOST, "'", 2);
  const struct kind_row fits = {fields, 0, NULL, NULL};
  kind_rows_run(job, &fits, 1);
  assert_int_equal(strlen(kind_rows_content(job, "large")), MOST);
  free(fields);
}

JOB_TEST(write_file_writes_nul_bytes) {
  static const struct kind_row row = {WRITE "'nul','content':'a\\u0000b'", 0, NULL, NULL};
  /* cJSON would end the text at the NUL. */
  const char *payload = job_json(job, "{'stepId':'nul','workingDirectory':'%s',%s}",
                                 kind_rows_directory(job), row.fields);
  job_push_text(job, payload, strlen(payload));
  job_expect_result(job, job_result(job), 0, NULL, NULL);
  struct stat nul;
  assert_int_equal(stat(kind_rows_path(job, "nul"), &nul), 0);
  assert_int_equal(nul.st_size, 3);
}

/* --- editFile --- */

JOB_TEST(edit_file_applies_all_edits_or_none) {
  kind_rows_file(job, "f", "one\ntwo\nthree\n");
  static const struct kind_row rows[] = {
      {EDIT "'f','edits':[{'oldString':'two','newString':'2'},{'oldString':'one','newString':''}]",
       0, "Edited f (2 changes)\n\n@ line 2:\n- two\n+ 2\n\n\n@ line 1:\n- one\n", NULL},
      {EDIT "'f','edits':[{'oldString':'three','newString':'3'},{'oldString':'no','newString':''}]",
       1, NULL, "edits[1]: old_string not found (an earlier edit may have changed it)"},
      {EDIT "'f','edits':[{'oldString':'','newString':'x'}]", 1, NULL, "old_string is required"},
      {EDIT "'none','edits':[{'oldString':'a','newString':'b'}]", 1, NULL,
       "file not found: $D/none"},
      {EDIT "'.','edits':[{'oldString':'a','newString':'b'}]", 1, NULL,
       "is a directory, not a regular file: $D"},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
  assert_string_equal(kind_rows_content(job, "f"), "\n2\nthree\n");
}

JOB_TEST(edit_file_changes_only_the_replaced_text) {
  kind_rows_file(job, "dos", "\xEF\xBB\xBFone\r\ntwo\r\nlone\n");
  assert_int_equal(chmod(kind_rows_path(job, "dos"), 0751), 0);
  kind_rows_file(job, "latin", "caf\xE9\n");
  static const struct kind_row rows[] = {
      {EDIT "'dos','edits':[{'oldString':'one\\ntwo','newString':'1\\n2'}]", 0,
       "Edited dos (1 change)\n\n@ line 1:\n- one\n- two\n+ 1\n+ 2\n", NULL},
      {EDIT "'latin','edits':[{'oldString':'caf','newString':'tea'}]", 1, NULL,
       "binary or non-UTF-8 content not supported"},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
  assert_string_equal(kind_rows_content(job, "dos"), "\xEF\xBB\xBF"
                                                     "1\r\n2\r\nlone\n");
  assert_string_equal(kind_rows_content(job, "latin"), "caf\xE9\n");
  struct stat dos;
  assert_int_equal(stat(kind_rows_path(job, "dos"), &dos), 0);
  assert_int_equal(dos.st_mode & 07777, 0751);
}

/* --- directoryTree --- */

JOB_TEST(directory_tree_draws_the_tree_of_the_protocol) {
  static const char *const files[] = {"Makefile",          "src/main.c",      "src/a/b/c/d",
                                      "src/a/b/c/e/f",     "z/.hidden",       "node_modules/x/y",
                                      "src/a/bin/program", ".git/config",     "src/bin2",
                                      "src/a/b/README",    "docs/index.html", "a.c"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    kind_rows_file(job, files[i], "");
  assert_int_equal(symlink("src", kind_rows_path(job, "link")), 0);
  assert_int_equal(symlink("nowhere", kind_rows_path(job, "dangling")), 0);
  static const struct kind_row rows[] = {
      {TREE "'.','maxDepth':1", 0,
       "./\n├── docs/\n├── link/\n├── src/\n├── z/\n├── Makefile\n├── a.c\n└── dangling", NULL},
      {TREE "'$D/z/.'", 0, "./\n└── .hidden", NULL},
      {TREE "'src'", 0,
       "src/\n├── a/\n│   └── b/\n│       ├── c/\n│       │   ├── e/\n│       │   └── d\n"
       "│       └── README\n├── bin2\n└── main.c",
       NULL},
      {TREE "'$D/src/a/','maxDepth':2", 0, "a/\n└── b/\n    ├── c/\n    └── README", NULL},
      {TREE "'src','excludeGlobs':['*.c','[ab]']", 0, "src/\n└── bin2", NULL},
      {TREE "'node_modules'", 0, "node_modules/\n└── x/\n    └── y", NULL},
      {TREE "'z','excludeGlobs':[]", 0, "z/\n└── .hidden", NULL},
      {TREE "'link','maxDepth':1", 0, "link/\n├── a/\n├── bin2\n└── main.c", NULL},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST(directory_tree_counts_unreadable_directories) {
  kind_rows_deep_file(job);
  const cJSON *step = kind_rows_step(job, TREE "'.','maxDepth':1000");
  const cJSON *result = job_run(job, step);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 0);
  assert_string_equal(job_lines(job, step, "stderr"), "1 directories could not be looked into\n");
}

/* --- listFiles --- */

/* Sets the modification time of a file, in seconds and milliseconds since 1970. */
static void age(struct job *job, const char *name, time_t seconds, long milliseconds) {
  struct timespec times[2] = {{.tv_sec = seconds, .tv_nsec = milliseconds * 1000000}};
  times[1] = times[0];
  assert_int_equal(utimensat(AT_FDCWD, kind_rows_path(job, name), times, AT_SYMLINK_NOFOLLOW), 0);
}

JOB_TEST(list_files_returns_the_entries_of_the_protocol) {
  kind_rows_file(job, "b", "four");
  kind_rows_file(job, "a/deep", "");
  kind_rows_file(job, ".hidden", "x");
  kind_rows_file(job, "quote\"\n", "12");
  age(job, "a/deep", 3, 0);
  age(job, "b", 1777975200, 123);
  age(job, "a", 1, 0);
  age(job, ".hidden", 2, 0);
  age(job, "quote\"\n", 0, 999);
#define A "{'path':'$D/a','mtime':'1970-01-01T00:00:01.000+00:00','is_directory':true}"
#define B                                                                                          \
  "{'path':'$D/b','size_bytes':4,'mtime':'2026-05-05T10:00:00.123+00:00',"                         \
  "'is_directory':false}"
#define HIDDEN                                                                                     \
  "{'path':'$D/.hidden','size_bytes':1,'mtime':'1970-01-01T00:00:02.000+00:00',"                   \
  "'is_directory':false}"
#define QUOTE                                                                                      \
  "{'path':'$D/quote\\'\\n','size_bytes':2,'mtime':'1970-01-01T00:00:00.999+00:00',"               \
  "'is_directory':false}"
#define DEEP                                                                                       \
  "{'path':'$D/a/deep','size_bytes':0,'mtime':'1970-01-01T00:00:03.000+00:00',"                    \
  "'is_directory':false}"
  static const struct kind_row rows[] = {
      {LIST "'.'", 0, "[" HIDDEN "," A "," B "," QUOTE "]", NULL},
      {LIST "'$D'", 0, "[" HIDDEN "," A "," B "," QUOTE "]", NULL},
      {LIST "'$D/.//','maxDepth':0", 0, "[" HIDDEN "," A "," B "," QUOTE "]", NULL},
      {LIST "'.','maxDepth':2", 0, "[" HIDDEN "," A "," DEEP "," B "," QUOTE "]", NULL},
      {LIST "'.','sortBy':'mtime'", 0, "[" B "," HIDDEN "," A "," QUOTE "]", NULL},
      {LIST "'.','sortBy':'mtime','maxDepth':9", 0, "[" B "," DEEP "," HIDDEN "," A "," QUOTE "]",
       NULL},
      {LIST "'a','sortBy':'name'", 0, "[" DEEP "]", NULL},
      {LIST "'a','withSizes':false", 0,
       "[{'path':'$D/a/deep','mtime':'1970-01-01T00:00:03.000+00:00',"
       "'is_directory':false}]",
       NULL},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST(list_files_returns_at_most_a_thousand_entries_unless_it_is_asked_for_all) {
  for (int i = 0; i < 1000; i++)
    kind_rows_file(job, job_format(job, "many/%04d", i), "");
  for (int more = 0; more < 2; more++) {
    if (more == 1)
      kind_rows_file(job, "many/0500a", "");
    const cJSON *step = kind_rows_step(job, LIST "'many'");
    const cJSON *result = job_run(job, step);
    assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 0);
    const cJSON *entries = job_own(job, cJSON_Parse(job_text(result, "outputContent")));
    assert_int_equal(cJSON_GetArraySize(entries), 1000);
    assert_string_equal(job_lines(job, step, "stderr"),
                        more == 0 ? "" : "directory truncated at 1000 entries\n");
    assert_string_equal(job_text(cJSON_GetArrayItem(entries, 999), "path"),
                        kind_rows_path(job, more == 0 ? "many/0999" : "many/0998"));
  }
  assert_int_equal(symlink("0500", kind_rows_path(job, "many/link")), 0);
  assert_int_equal(chmod(kind_rows_path(job, "many/0500"), 04710), 0);
  const cJSON *step =
      kind_rows_step(job, LIST "'many','maxDepth':3,'sortBy':'size','allEntries':true");
  const cJSON *entries = job_own(job, cJSON_Parse(job_text(job_run(job, step), "outputContent")));
  assert_int_equal(cJSON_GetArraySize(entries), 1002);
  assert_string_equal(job_lines(job, step, "stderr"), "");
  const cJSON *file = cJSON_GetArrayItem(entries, 500), *last = cJSON_GetArrayItem(entries, 1001);
  assert_string_equal(job_text(file, "path"), kind_rows_path(job, "many/0500"));
  assert_string_equal(job_text(file, "mode"), "4710");
  assert_null(cJSON_GetObjectItem(file, "link"));
  assert_string_equal(job_text(last, "path"), kind_rows_path(job, "many/link"));
  assert_string_equal(job_text(last, "mode"), "0777");
  assert_string_equal(job_text(last, "link"), "0500");
}

JOB_TEST(list_files_counts_unreadable_directories) {
  kind_rows_deep_file(job);
  for (int many = 0; many < 2; many++) {
    for (int i = 0; i < 1000 * many; i++)
      kind_rows_file(job, job_format(job, "many/%04d", i), "");
    /* To sort by size, the agent reads all directories; to sort by name, it stops at the limit. */
    const cJSON *step = kind_rows_step(job, LIST "'.','sortBy':'size','maxDepth':1000");
    const cJSON *result = job_run(job, step);
    assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 0);
    assert_string_equal(job_lines(job, step, "stderr"),
                        many == 0 ? "1 directories could not be looked into\n"
                                  : "directory truncated at 1000 entries\n"
                                    "1 directories could not be looked into\n");
  }
}

/* --- grep --- */

#define MATCH(path, line, text)                                                                    \
  "{'path':'" path "','line':" #line ",'text':'" text "','kind':'match'}"
#define CONTEXT(path, line, text)                                                                  \
  "{'path':'" path "','line':" #line ",'text':'" text "','kind':'context'}"

static void make_tree(struct job *job) {
  kind_rows_file(job, "a.c", "int a;\nint needle;\nint b;\n");
  kind_rows_file(job, "sub/b.h", "needle one\r\nnothing\r\nneedle two\r\n");
  kind_rows_file(job, "sub/deep/c.txt", "caf\xC3\xA9 needle\n");
  kind_rows_file(job, ".hidden", "needle");
  kind_rows_file(job, "node_modules/x.c", "needle");
  kind_rows_file(job, "sub/obj/x.c", "needle");
}

JOB_TEST(grep_has_the_output_modes_of_the_protocol) {
  make_tree(job);
  assert_int_equal(mkfifo(kind_rows_path(job, "fifo"), 0666), 0); /* does not block the search */
  static const struct kind_row rows[] = {
      {GREP "'.','pattern':'needle'", 0,
       "[" MATCH(".hidden", 1, "needle") "," MATCH("a.c", 2, "int needle;") "," MATCH(
           "sub/b.h", 1, "needle one") "," MATCH("sub/b.h", 3,
                                                 "needle two") "," MATCH("sub/deep/c.txt", 1,
                                                                         "caf\xC3\xA9 needle") "]",
       NULL},
      {GREP "'$D','pattern':'needle','outputMode':'filesWithMatches'", 0,
       "[{'path':'.hidden'},{'path':'a.c'},{'path':'sub/b.h'},"
       "{'path':'sub/deep/c.txt'}]",
       NULL},
      {GREP "'sub','pattern':'needle','outputMode':'count'", 0,
       "[{'path':'b.h','count':2},{'path':'deep/c.txt','count':1}]", NULL},
      {GREP "'sub/b.h','pattern':'two$$'", 0, "[" MATCH("b.h", 3, "needle two") "]", NULL},
      {GREP "'.','pattern':'needle','glob':'*.{c,h}','outputMode':'filesWithMatches'", 0,
       "[{'path':'a.c'},{'path':'sub/b.h'}]", NULL},
      {GREP "'.','pattern':'needle','glob':'sub/**','outputMode':'filesWithMatches'", 0,
       "[{'path':'sub/b.h'},{'path':'sub/deep/c.txt'}]", NULL},
      {GREP "'a.c','pattern':'needle','contextBefore':1,'contextAfter':5", 0,
       "[" CONTEXT("a.c", 1, "int a;") "," MATCH("a.c", 2, "int needle;") "," CONTEXT("a.c", 3,
                                                                                      "int b;") "]",
       NULL},
      {GREP "'sub/b.h','pattern':'one','glob':'*.c'", 0, "[" MATCH("b.h", 1, "needle one") "]",
       NULL},
      {GREP "'sub/deep','pattern':'no such thing'", 0, "[]", NULL},
      {GREP "'node_modules','pattern':'needle'", 0, "[" MATCH("x.c", 1, "needle") "]", NULL},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST(grep_accepts_the_patterns_that_models_write) {
  kind_rows_file(job, "f", "GetName(x)\nname = 42;\n\xC3\x89t\xC3\xA9\nfoo.bar\n");
#define ONE(line, text) 0, "[" MATCH("f", line, text) "]", NULL
  static const struct kind_row rows[] = {
      {GREP "'f','pattern':'\\\\bGet\\\\w+\\\\('", ONE(1, "GetName(x)")},
      {GREP "'f','pattern':'(?i)getname'", ONE(1, "GetName(x)")},
      {GREP "'f','pattern':'^name\\\\s*=\\\\s*\\\\d+;$$'", ONE(2, "name = 42;")},
      {GREP "'f','pattern':'^\\\\p{L}+$$'", ONE(3, "\xC3\x89t\xC3\xA9")},
      {GREP "'f','pattern':'(?<=foo\\\\.)bar'", ONE(4, "foo.bar")},
      {GREP "'f','pattern':'Get(?!Value)'", ONE(1, "GetName(x)")},
      {GREP "'f','pattern':'zzz|(?<number>\\\\d{2})'", ONE(2, "name = 42;")},
      {GREP "'f','pattern':'Get\\\\d{2}|t\xC3\xA9'", ONE(3, "\xC3\x89t\xC3\xA9")},
      {GREP "'f','pattern':'^\\\\u00c9t'", ONE(3, "\xC3\x89t\xC3\xA9")},
      {GREP "'f','pattern':'^[\\\\w-.]{5,}$$'", ONE(4, "foo.bar")},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST(grep_says_that_it_truncated_the_matches) {
  kind_rows_file(job, "f", "1\n2\n3\n");
  kind_rows_file(job, "g", "1\n");
  static const struct kind_row rows[] = {
      {GREP "'f','pattern':'[0-9]','headLimit':2", 0,
       "[" MATCH("f", 1, "1") "," MATCH("f", 2, "2") "]", "grep truncated at 2 matches"},
      {GREP "'f','pattern':'[0-9]','headLimit':3", 0,
       "[" MATCH("f", 1, "1") "," MATCH("f", 2, "2") "," MATCH("f", 3, "3") "]", NULL},
      {GREP "'.','pattern':'1','headLimit':1,'outputMode':'filesWithMatches'", 0, "[{'path':'f'}]",
       "grep truncated at 1 matches"},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST(grep_reports_skipped_lines_and_unreadable_directories) {
  enum { LENGTH = 10001 };
  kind_rows_deep_file(job);
  char *text = malloc(LENGTH + 32);
  assert_non_null(text);
  memset(text, 'a', LENGTH);
  memcpy(text + LENGTH, "\nyes\nyes\n", 10);
  kind_rows_file(job, "f", text);
  free(text);
  char *large = malloc(1000002);
  assert_non_null(large);
  memset(large, 'x', 1000001);
  large[1000001] = '\0';
  kind_rows_file(job, "dist/large", large);
  free(large);
  static const struct kind_row rows[] = {
      {GREP "'dist/large','pattern':'x','outputMode':'count'", 0, "[{'path':'large','count':1}]",
       NULL},
      {GREP "'/proc/self/cmdline','pattern':'\\\\x00','outputMode':'count'", 0,
       "[{'path':'cmdline','count':1}]", NULL},
      {GREP "'f','pattern':'(a|aa)+b?$$(?<=!)|s'", 0,
       "[" MATCH("f", 2, "yes") "," MATCH("f", 3, "yes") "]",
       "grep passed over 1 lines that are too long for the pattern, the first in f:1"},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
  /* A text with a long path is cut in its middle. */
  const cJSON *step = kind_rows_step(job, GREP "'.','pattern':'(a|aa)+b?$$(?<=!)|s','headLimit':1");
  assert_int_equal(cJSON_GetObjectItem(job_run(job, step), "exitCode")->valueint, 0);
  static const char cut[] =
      "grep truncated at 1 matches\ngrep passed over 1 lines that are too long";
  assert_memory_equal(job_lines(job, step, "stderr"), cut, sizeof cut - 1);
  step = kind_rows_step(job, GREP "'.','pattern':'^no'");
  assert_int_equal(cJSON_GetObjectItem(job_run(job, step), "exitCode")->valueint, 1);
  static const char gap[] =
      "nothing found, but 1 directory and 0 files could not be read, the first: /";
  assert_memory_equal(job_lines(job, step, "stderr"), gap, sizeof gap - 1);
}

JOB_TEST(grep_skips_files_that_the_repository_ignores) {
  kind_rows_file(job, ".git/info/exclude", "/secret\n");
  kind_rows_file(job, ".gitignore", "out/\n*.log\n");
  kind_rows_file(job, "a", "yes\n");
  kind_rows_file(job, "a.log", "yes\n");
  kind_rows_file(job, ".env", "yes\n");
  kind_rows_file(job, "out/b", "yes\n");
  kind_rows_file(job, "secret", "yes\n");
  kind_rows_file(job, ".agentsmith/reference/c", "yes\n");
#define NAMES "'pattern':'yes','outputMode':'filesWithMatches'"
#define NAME(PATH) "{'path':'" PATH "'}"
  static const char left_out[] =
      "grep left out 2 directories and 4 files that are hidden or ignored";
  static const struct kind_row rows[] = {
      {GREP "'.'," NAMES ",'searchHidden':false", 0, "[" NAME("a") "]", left_out},
      {GREP "'.'," NAMES ",'searchHidden':true", 0,
       "[" NAME(".env") "," NAME("a") "," NAME("a.log") "," NAME("out/b") "," NAME("secret") "]",
       NULL},
      {GREP "'.'," NAMES, 0,
       "[" NAME(".env") "," NAME("a") "," NAME("a.log") "," NAME("out/b") "," NAME("secret") "]",
       NULL},
      {GREP "'out'," NAMES ",'searchHidden':false", 0, "[" NAME("b") "]", NULL},
      {GREP "'.env'," NAMES ",'searchHidden':false", 0, "[" NAME(".env") "]", NULL},
      {GREP "'.'," NAMES ",'glob':'*.log','searchHidden':false", 0, "[" NAME("a.log") "]",
       "grep left out 2 directories and 0 files that are hidden or ignored"},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
}

/* If files were skipped, an answer without a match does not prove that the text is absent. */
JOB_TEST(grep_without_a_match_names_files_that_it_did_not_search) {
  make_tree(job);
  char *large = malloc(1000002);
  assert_non_null(large);
  memset(large, 'x', 1000001);
  large[1000001] = '\0';
  kind_rows_file(job, "large", large);
  free(large);
  kind_rows_bytes(job, "sub/nul.bin", "a\0needle", 8);
  kind_rows_bytes(job, "sub/deep/nul.bin", "a\0needle", 8);
  static const struct kind_row rows[] = {
      {GREP "'.','pattern':'no such thing'", 0, "[]",
       "grep did not search 2 directories that are always left out, the first: node_modules\n"
       "grep did not search 1 file over 1,000,000 bytes: large\n"
       "grep did not search 2 files that contain NUL bytes, the first: sub/deep/nul.bin"},
      {GREP "'.','pattern':'no such thing','prefixPaths':true,'glob':'sub/**'", 0, "[]",
       "grep did not search 1 directory that is always left out: sub/obj\n"
       "grep did not search 2 files that contain NUL bytes, the first: sub/deep/nul.bin"},
      {GREP "'sub','pattern':'needle','prefixPaths':true,'glob':'*.bin'", 0, "[]",
       "grep did not search 1 directory that is always left out: sub/obj\n"
       "grep did not search 2 files that contain NUL bytes, the first: sub/deep/nul.bin"},
      {GREP "'.','pattern':'needle','glob':'none/*.py'", 0, "[]",
       "grep found no file that matches the glob `none/*.py`"},
      {GREP "'.','pattern':'needle','glob':'!*'", 0, "[]",
       "grep found no file that the glob `!*` does not leave out"},
      {GREP "'.','pattern':'x','outputMode':'count','glob':'large'", 0, "[]",
       "grep did not search 2 directories that are always left out, the first: node_modules\n"
       "grep did not search 1 file over 1,000,000 bytes: large"},
      {GREP "'.','pattern':'needle','outputMode':'count'", 0,
       "[{'path':'.hidden','count':1},{'path':'a.c','count':1},{'path':'sub/b.h','count':2},"
       "{'path':'sub/deep/c.txt','count':1}]",
       NULL},
      {GREP "'a.c','pattern':'no such thing','glob':'*.py'", 0, "[]", NULL},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST(grep_without_a_match_names_line_endings_and_links_that_it_did_not_search) {
#define RETURNS(NAME)                                                                              \
  "grep did not search 1 file for \\r at the end of its lines, where the pattern matches: " NAME
  static const char *const patterns[] = {"a;\\\\r", "\\\\x0d", "[\\\\cM]", "a;\\\\R",
                                         "a\\\\W*;\\\\s"};
  kind_rows_file(job, "windows", "a;\r\nb\r\n");
  kind_rows_file(job, "unix", "a;\nb\n");
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
    const char *fields = formatted(GREP "'.','pattern':'%s'", patterns[i]);
    kind_rows_run(job, &(struct kind_row){fields, 0, "[]", RETURNS("windows")}, 1);
    fields = formatted(GREP "'unix','pattern':'%s'", patterns[i]);
    kind_rows_run(job, &(struct kind_row){fields, 0, "[]", NULL}, 1);
  }
  assert_int_equal(symlink("unix", kind_rows_path(job, "link")), 0);
  static const struct kind_row rows[] = {
      {GREP "'windows','pattern':'b\\r'", 0, "[]", RETURNS("windows")},
      {GREP "'.','pattern':'C:\\\\\\\\repo'", 0, "[]", "grep did not search 1 symbolic link: link"},
      {GREP "'.','pattern':'^b','outputMode':'count'", 0,
       "[{'path':'unix','count':1},{'path':'windows','count':1}]", NULL}};
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST(grep_searches_the_directories_that_its_glob_names) {
  make_tree(job);
  kind_rows_file(job, ".github/workflows/ci.yml", "needle");
  kind_rows_file(job, ".git/config", "needle");
  kind_rows_file(job, ".gitignore", "out/\n");
  kind_rows_file(job, "out/x.log", "needle");
#define FILES(GLOB)                                                                                \
  GREP "'.','pattern':'needle','outputMode':'filesWithMatches','searchHidden':false,'glob':'" GLOB \
       "'"
#define LEFT_OUT(COUNT) "grep left out " COUNT " and 0 files that are hidden or ignored"
  static const struct kind_row rows[] = {
      {FILES(".github/workflows/*.yml"), 0, "[{'path':'.github/workflows/ci.yml'}]",
       LEFT_OUT("1 directory")},
      {FILES(".git/*"), 0, "[{'path':'.git/config'}]", LEFT_OUT("2 directories")},
      {FILES("out/*"), 0, "[{'path':'out/x.log'}]", LEFT_OUT("1 directory")},
      {FILES("sub/obj/*.c"), 0, "[{'path':'sub/obj/x.c'}]", LEFT_OUT("2 directories")},
      {FILES("**/node_modules/**"), 0, "[{'path':'node_modules/x.c'}]", LEFT_OUT("2 directories")},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
}

/* `?` matches one byte, as in git. */
JOB_TEST(grep_globs_and_ignore_files_match_bytes) {
  kind_rows_file(job, "\xC3\xA9.txt", "needle");
  kind_rows_file(job, "e.txt", "needle");
  kind_rows_file(job, "sub/\xC3\xA9.txt", "needle");
  kind_rows_file(job, "sub/e.txt", "needle");
  kind_rows_file(job, "sub/.ignore", "?.txt");
  static const struct kind_row rows[] = {
      {GREP "'.','pattern':'needle','outputMode':'filesWithMatches','glob':'/?.txt'", 0,
       "[{'path':'e.txt'}]", NULL},
      {GREP "'sub','pattern':'needle','outputMode':'filesWithMatches','searchHidden':false", 0,
       "[{'path':'\xC3\xA9.txt'}]",
       "grep left out 0 directories and 2 files that are hidden or ignored"},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST(grep_explains_patterns_that_it_cannot_use) {
  kind_rows_file(job, "slow", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\n");
  static const struct {
    const char *fields;
    const char *parts[2];
  } rows[] = {
      {GREP "'.','pattern':'a(b'", {"missing closing parenthesis", "offset 3"}},
      {GREP "'.','pattern':'[z-a]'", {"range out of order", "offset"}},
      {GREP "'.','pattern':'a','glob':'['", {"glob", "["}},
      {GREP "'.','pattern':'x\\\\)\\\\nname'", {"contains a line break", "matched by itself"}},
      {GREP "'.','pattern':'a\\n'", {"contains a line break", "matched by itself"}},
      {GREP "'.','pattern':'^(a+)+$$'", {"too expensive", "slow:1"}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const cJSON *result = job_run(job, kind_rows_step(job, rows[i].fields));
    assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 1);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(result, "outputContent")));
    for (size_t k = 0; k < 2; k++)
      job_expect_part(job, result, "errorMessage", rows[i].parts[k]);
  }
}

TEST_OVERLAP(3)
