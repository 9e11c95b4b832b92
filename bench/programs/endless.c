/* endless BYTES: prints this many bytes without a line ending. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  char block[65536];
  memset(block, 'x', sizeof block);
  long long left = argc == 2 ? strtoll(argv[1], NULL, 10) : 0;
  while (left > 0) {
    size_t wanted = left < (long long)sizeof block ? (size_t)left : sizeof block;
    ssize_t written = write(STDOUT_FILENO, block, wanted);
    if (written < 0)
      return 1;
    left -= written;
  }
  return 0;
}
