;; SPDX-License-Identifier: Apache-2.0
;; job.clj - one program for every process of a job of two workers: the server serves inside
;; create, the workers push to one key and see the sum of both.
(ns job
  (:require [org.apache.clojure-mxnet.kvstore :as kvstore]
            [org.apache.clojure-mxnet.ndarray :as ndarray]))

(def kv (kvstore/create "dist_sync" {:timeout 50}))
(assert (= "worker" (System/getenv "KVSTORE_ROLE")) "create serves where the role is another")
(assert (= 2 (kvstore/num-workers kv)))

(def rank (kvstore/rank kv))
(def a (ndarray/full [2 2] (inc rank)))
(kvstore/init kv ["w"] [a])
(kvstore/pull kv "w" a)
(assert (= (repeat 4 1.0) (ndarray/->vec a)) "rank 0's value counts")

(kvstore/push kv ["w"] [(ndarray/full [2 2] (inc rank))])
(kvstore/pull kv "w" a)
(assert (= (repeat 4 3.0) (ndarray/->vec a)) "the sum of both workers")

(kvstore/set-optimizer kv "sgd" {:learning-rate 0.5 :wd 0})
(kvstore/push kv ["w"] [(ndarray/ones [2 2])])
(kvstore/pull kv "w" a)
(assert (= (repeat 4 2.0) (ndarray/->vec a)) "3 - 0.5 * 2, on the server")
(kvstore/barrier kv)
(kvstore/close kv)
(println "rank" rank "done")
(System/exit 0)
