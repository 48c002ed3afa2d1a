/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - the main of a fuzz target where libFuzzer is missing: runs each file named once. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static int replay(const char *path)
{
    static uint8_t bytes[1 << 20];
    FILE *file = fopen(path, "rb");

    if (file == NULL) {
        perror(path);
        return -1;
    }
    size_t n_bytes = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    uint8_t *exact = malloc(n_bytes > 0 ? n_bytes : 1); /* so that a sanitizer sees an overrun */
    for (size_t i = 0; exact != NULL && i < n_bytes; i++) {
        exact[i] = bytes[i];
    }
    int failed = exact == NULL || LLVMFuzzerTestOneInput(exact, n_bytes) != 0;
    free(exact);
    return failed ? -1 : 0;
}

int main(int argc, char **argv)
{
    int failed = argc < 2;

    for (int i = 1; i < argc; i++) {
        failed |= replay(argv[i]) != 0;
    }
    printf("%d seeds replayed\n", argc - 1);
    return failed;
}
