/*
 * What must be done for a step that reads a small file, and no more: takes the step, has a child of
 * its own read the file, and answers in one transaction.
 *
 *   answer PORT JOB FILE
 *
 * The step is not looked at, the answer is made before.
 */
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define EVENT                                                                                      \
  "{\"schemaVersion\":1,\"stepId\":\"00000000-0000-0000-0000-000000000001\",\"kind\":\"%s\","      \
  "\"line\":\"%s\",\"seq\":1,\"timestamp\":\"2026-05-05T10:00:00.123+00:00\"}"
#define RESULT                                                                                     \
  "{\"schemaVersion\":1,\"stepId\":\"00000000-0000-0000-0000-000000000001\",\"exitCode\":0,"       \
  "\"timedOut\":false,\"durationSeconds\":0.001,\"errorMessage\":null,\"outputContent\":\"%.*s\"," \
  "\"eventCount\":2}"

enum { MOST = 65536 };

static int read_in_child(const char *path, int to) {
  char bytes[MOST];
  struct stat file;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &file) != 0 || !S_ISREG(file.st_mode))
    return 1;
  ssize_t length = read(fd, bytes, sizeof bytes);
  return length < 0 || write(to, bytes, (size_t)length) != length;
}

/* The length of what the child has read; -1 when it failed. */
static ssize_t read_file(const char *path, char out[MOST]) {
  int pipes[2], status;
  size_t length = 0;
  ssize_t n;
  if (pipe2(pipes, O_CLOEXEC) != 0)
    return -1;
  pid_t pid = fork();
  if (pid == 0)
    _exit(read_in_child(path, pipes[1]));
  close(pipes[1]);
  while ((n = read(pipes[0], out + length, MOST - length)) > 0)
    length += (size_t)n;
  close(pipes[0]);
  return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? (ssize_t)length : -1;
}

static int answer(redisContext *redis, const char *job, const char *text, int length) {
  static char started[512], completed[512], result[2 * MOST];
  (void)snprintf(started, sizeof started, EVENT, "started", "readFile file");
  (void)snprintf(completed, sizeof completed, EVENT, "completed", "exit=0 timedOut=False");
  (void)snprintf(result, sizeof result, RESULT, length, text);
  redisAppendCommand(redis, "MULTI");
  redisAppendCommand(redis, "XADD sandbox:%s:events MAXLEN ~ 10000 * data %s", job, started);
  redisAppendCommand(redis, "XADD sandbox:%s:events MAXLEN ~ 10000 * data %s", job, completed);
  redisAppendCommand(redis, "LPUSH sandbox:%s:results %s", job, result);
  redisAppendCommand(redis, "LPOP sandbox:%s:inflight", job);
  redisAppendCommand(redis, "EXEC");
  for (int i = 0; i < 6; i++) {
    void *reply = NULL;
    if (redisGetReply(redis, &reply) != REDIS_OK)
      return -1;
    freeReplyObject(reply);
  }
  return 0;
}

int main(int argc, char **argv) {
  static char text[MOST];
  if (argc != 4)
    return 64;
  redisContext *redis = redisConnect("127.0.0.1", (int)strtol(argv[1], NULL, 10));
  while (redis != NULL && redis->err == 0) {
    redisReply *step = redisCommand(redis, "BLMOVE sandbox:%s:in sandbox:%s:inflight RIGHT LEFT 0",
                                    argv[2], argv[2]);
    ssize_t length = step == NULL ? -1 : read_file(argv[3], text);
    freeReplyObject(step);
    if (length < 0 || answer(redis, argv[2], text, (int)length) != 0)
      return 1;
  }
  return 1;
}
