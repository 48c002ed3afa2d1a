/* SPDX-License-Identifier: Apache-2.0 */
#include "show.h"

#include "clocale.h"
#include "clock.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_MS 1000

struct net_show {
    net_show_args_t args; /* fixed after open, as `window`; job_id is owned */
    kvs_net_window_t *window;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_asked; /* guarded by lock */
    char *text;    /* the answer; likewise */
};

/* On the window's thread, for one at a time. A late answer is nobody's. */
static char *look(void *arg)
{
    net_show_t *show = arg;
    int64_t deadline = net_deadline(ANSWER_MS);
    char *text;

    pthread_mutex_lock(&show->lock);
    show->is_asked = true;
    pthread_mutex_unlock(&show->lock);
    show->args.ring(show->args.arg, show);
    pthread_mutex_lock(&show->lock);
    while (show->text == NULL && net_now() < deadline) {
        net_cond_wait(&show->changed, &show->lock, deadline);
    }
    text = show->text;
    show->text = NULL;
    show->is_asked = false;
    pthread_mutex_unlock(&show->lock);
    if (text == NULL &&
        asprintf(&text, "job %s: %s (pid %ld) is busy: no answer within %d s\n", show->args.job_id,
                 show->args.who, (long)getpid(), ANSWER_MS / 1000) < 0) {
        text = NULL;
    }
    return text;
}

static char *write_down(const net_show_t *show)
{
    locale_t before = uselocale(net_c_locale());
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    if (out != NULL) {
        show->args.write(show->args.arg, out);
        fclose(out);
    }
    uselocale(before);
    return text;
}

void net_show_answer(net_show_t *show)
{
    bool is_asked;
    char *text;

    if (show == NULL) {
        return;
    }
    pthread_mutex_lock(&show->lock);
    is_asked = show->is_asked;
    show->is_asked = false;
    pthread_mutex_unlock(&show->lock);
    if (!is_asked) {
        return;
    }
    text = write_down(show);
    pthread_mutex_lock(&show->lock);
    free(show->text);
    show->text = text;
    pthread_cond_broadcast(&show->changed);
    pthread_mutex_unlock(&show->lock);
}

void net_show_close(net_show_t *show)
{
    if (show != NULL) {
        kvs_net_window_close(show->window);
        show->window = NULL;
    }
}

void net_show_free(net_show_t *show)
{
    if (show == NULL) {
        return;
    }
    free((char *)(uintptr_t)show->args.job_id);
    free(show->text);
    pthread_cond_destroy(&show->changed);
    pthread_mutex_destroy(&show->lock);
    free(show);
}

net_show_t *net_show_open(const net_show_args_t *args)
{
    net_show_t *show = calloc(1, sizeof(*show));
    kvs_status_t status = KVS_ERR_NO_MEMORY;

    if (show != NULL) {
        show->args = *args;
        show->args.job_id = strdup(args->job_id);
        pthread_mutex_init(&show->lock, NULL);
        net_cond_init(&show->changed);
    }
    if (show != NULL && show->args.job_id != NULL) {
        status = kvs_net_window_open(look, show, &show->window);
    }
    if (status != KVS_OK) {
        kvs_log(KVS_LOG_WARN, "net", "`kvstore status` won't show this %s: %s", args->who,
                status == KVS_ERR_NO_MEMORY ? "no memory" : kvs_plugin_host->last_error());
        net_show_free(show);
        return NULL;
    }
    return show;
}

void net_show_memory(FILE *out)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long n_pages = 0;

    if (file != NULL) {
        if (fscanf(file, "%*d %ld", &n_pages) != 1) {
            n_pages = 0;
        }
        fclose(file);
    }
    fprintf(out, "  memory: %.1f MB resident",
            (double)n_pages * (double)sysconf(_SC_PAGESIZE) / 1e6);
}
