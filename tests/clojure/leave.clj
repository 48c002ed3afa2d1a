;; SPDX-License-Identifier: Apache-2.0
;; leave.clj - a worker that SIGINT ends while it waits leaves the job, and the other hears so at once.
(ns leave
  (:require [clojure.java.shell :as shell]
            [clojure.string :as string]
            [org.apache.clojure-mxnet.kvstore :as kvstore]
            [org.apache.clojure-mxnet.ndarray :as ndarray]))

(def kv (kvstore/create "dist_sync" {:timeout 50}))
(def a (ndarray/ones [2]))
(kvstore/init kv "w" a)
(kvstore/barrier kv)

(defn exchange [n]
  (dotimes [_ n]
    (kvstore/push kv "w" a)
    (kvstore/pull kv "w" a)))

(if (zero? (kvstore/rank kv))
  (do
    (future
      (Thread/sleep 300)
      (println "rank 0 done")
      (shell/sh "kill" "-INT" (str (.pid (java.lang.ProcessHandle/current)))))
    (kvstore/barrier kv)) ; which rank 1 never enters
  (try
    (exchange 3)
    (catch clojure.lang.ExceptionInfo e
      (when (and (= "KVS_ERR_PEER" (:status (ex-data e)))
                 (string/includes? (ex-message e) "worker 0")
                 (not (string/includes? (ex-message e) "died")))
        (println "rank 1 done")))))
(System/exit 0)
