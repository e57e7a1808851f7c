// A small lake that keeps its tables in one JSON file and answers Sexton's questions over HTTP.
// What it serves below /v1 is described in docs/owner-openapi.json; /tables and /drops are its own.
package main

import (
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
)

// Table is a list of objects in one vault.
type Table struct {
	Vault string   `json:"vault"`
	Keys  []string `json:"keys"`
}

// Mark names garbage, or asks about it.
type Mark struct {
	Kind      string   `json:"kind"`
	ID        string   `json:"id"`
	Vault     string   `json:"vault,omitempty"`
	Keys      []string `json:"keys,omitempty"`
	Prefix    string   `json:"prefix,omitempty"`
	Undropped bool     `json:"undropped,omitempty"`
	Parent    *Mark    `json:"parent,omitempty"`
}

// Marks is the content of most requests.
type Marks struct {
	Marks   []Mark   `json:"marks"`
	Records []string `json:"records"`
}

// Drop is a dropped table until Sexton has deleted its objects. Once it is fenced it never comes back.
type Drop struct {
	Name   string `json:"name"`
	Table  Table  `json:"table"`
	Fenced bool   `json:"fenced"`
}

// Lake is everything that is stored. Orphans are fenced: objects that a check found, and that no table may list.
type Lake struct {
	Tables  map[string]Table `json:"tables"`
	Drops   map[string]Drop  `json:"drops"`
	Orphans map[string]Mark  `json:"orphans"`
	Garbage []Mark           `json:"garbage"` // only grows
	file    string
	mutex   sync.Mutex
}

type object map[string]any

var (
	errUnknown = errors.New("there is no such table or drop, or it is fenced")
	errDeleted = errors.New("an object of the table is being deleted: a check found it as an orphan")
)

// change applies a change and stores the lake; nothing is answered before it is on disk.
func (l *Lake) change(apply func() error) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if err := apply(); err != nil {
		return err
	}
	content, err := json.Marshal(l)
	if err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(l.file), "lake")
	if err != nil {
		return err
	}
	if _, err = temporary.Write(content); err == nil {
		err = temporary.Sync()
	}
	if closed := temporary.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temporary.Name(), l.file)
	}
	return err
}

func (l *Lake) create(name string, table Table) error {
	return l.change(func() error {
		for _, orphan := range l.Orphans {
			if table.Vault == orphan.Vault && touches(table.Keys, orphan) {
				return errDeleted
			}
		}
		l.Tables[name] = table
		return nil
	})
}

func (l *Lake) drop(name string) (string, error) {
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return "", err
	}
	id := hex.EncodeToString(random) // never used before, also if the table is undropped and dropped again
	return id, l.change(func() error {
		table, found := l.Tables[name]
		if !found {
			return errUnknown
		}
		delete(l.Tables, name)
		l.Drops[id] = Drop{Name: name, Table: table}
		parent := &Mark{Kind: "table", ID: name}
		l.Garbage = append(l.Garbage, Mark{Kind: "dropped", ID: id, Vault: table.Vault, Keys: table.Keys, Parent: parent})
		return nil
	})
}

func (l *Lake) undrop(id string) error {
	return l.change(func() error {
		drop, found := l.Drops[id]
		if !found || drop.Fenced {
			return errUnknown
		}
		delete(l.Drops, id)
		l.Tables[drop.Name] = drop.Table
		l.Garbage = append(l.Garbage, Mark{Kind: "dropped", ID: id, Undropped: true})
		return nil
	})
}

func (l *Lake) garbageAfter(after string, limit int) object {
	start, _ := strconv.Atoi(after)
	if start > len(l.Garbage) {
		start = len(l.Garbage)
	}
	end := start + limit
	if end > len(l.Garbage) {
		end = len(l.Garbage)
	}
	return object{"entries": append([]Mark{}, l.Garbage[start:end]...), "end": strconv.Itoa(end)}
}

func (l *Lake) fence(marks []Mark) (object, error) {
	answers := []object{}
	err := l.change(func() error {
		for _, mark := range marks {
			answer := "not_garbage"
			if mark.Kind == "orphan" {
				answer = l.fenceOrphan(mark)
			} else if drop, found := l.Drops[mark.ID]; found {
				drop.Fenced = true
				l.Drops[mark.ID] = drop
				answer = "fenced"
			}
			answers = append(answers, object{"kind": mark.Kind, "id": mark.ID, "answer": answer})
		}
		return nil
	})
	return object{"answers": answers}, err
}

func (l *Lake) fenceOrphan(mark Mark) string {
	for _, table := range l.Tables {
		if table.Vault == mark.Vault && touches(table.Keys, mark) {
			return "in_use"
		}
	}
	l.Orphans[mark.ID] = mark
	return "fenced"
}

func (l *Lake) forget(marks []Mark) error {
	return l.change(func() error {
		for _, mark := range marks {
			delete(l.Drops, mark.ID)
			delete(l.Orphans, mark.ID)
		}
		return nil
	})
}

func (l *Lake) search(marks []Mark) object {
	live := []object{}
	for _, mark := range marks {
		for name, table := range l.Tables {
			if table.Vault == mark.Vault && touches(table.Keys, mark) {
				live = append(live, object{"kind": mark.Kind, "id": mark.ID, "what": "table " + name})
				break
			}
		}
	}
	return object{"live": live, "searched": len(marks)}
}

func touches(keys []string, mark Mark) bool {
	for _, key := range keys {
		if mark.Prefix != "" && strings.HasPrefix(key, mark.Prefix) {
			return true
		}
		for _, other := range mark.Keys {
			if key == other {
				return true
			}
		}
	}
	return false
}

// files returns the objects of tables, which must exist, and of drops, which may, in pages of whole tables.
func (l *Lake) files(after string, limit int, only map[string]bool) object {
	tables, live := map[string]Table{}, map[string]bool{}
	for id, drop := range l.Drops {
		tables["drop/"+id] = drop.Table
	}
	for name, table := range l.Tables {
		tables["table/"+name], live["table/"+name] = table, true
	}
	records := []string{}
	for record := range tables {
		if record > after && (only == nil || only[record]) {
			records = append(records, record)
		}
	}
	sort.Strings(records)
	files, end := []object{}, ""
	for n, record := range records {
		for _, key := range tables[record].Keys {
			files = append(files, object{"vault": tables[record].Vault, "key": key, "live": live[record], "record": record})
		}
		if len(files) >= limit && n < len(records)-1 {
			end = record
			break
		}
	}
	return object{"files": files, "end": end}
}

func (l *Lake) count() object {
	objects := 0
	for _, table := range l.Tables {
		objects += len(table.Keys)
	}
	return object{"objects": objects}
}

// routes returns the handler of every request.
func (l *Lake) routes() http.Handler {
	mux := http.NewServeMux()
	read := func(path string, answer func(r *http.Request, m Marks) any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if asked, ok := decoded[Marks](w, r); ok {
				l.mutex.Lock()
				defer l.mutex.Unlock()
				reply(w, answer(r, asked), nil)
			}
		})
	}
	read("/v1/garbage", func(r *http.Request, _ Marks) any {
		return l.garbageAfter(r.FormValue("after"), number(r.FormValue("limit")))
	})
	read("/v1/live/search", func(_ *http.Request, m Marks) any { return l.search(m.Marks) })
	read("/v1/live/count", func(*http.Request, Marks) any { return l.count() })
	read("/v1/live", func(r *http.Request, _ Marks) any {
		return l.files(r.FormValue("after"), number(r.FormValue("limit")), nil)
	})
	read("/v1/live/records", func(_ *http.Request, m Marks) any {
		only := map[string]bool{}
		for _, record := range m.Records {
			only[record] = true
		}
		return l.files("", 1<<30, only)
	})
	mux.HandleFunc("/v1/fence", func(w http.ResponseWriter, r *http.Request) {
		if asked, ok := decoded[Marks](w, r); ok {
			answer, err := l.fence(asked.Marks)
			reply(w, answer, err)
		}
	})
	mux.HandleFunc("/v1/forget", func(w http.ResponseWriter, r *http.Request) {
		if asked, ok := decoded[Marks](w, r); ok {
			reply(w, object{}, l.forget(asked.Marks))
		}
	})
	mux.HandleFunc("/tables/", func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/tables/")
		if r.Method == http.MethodDelete {
			id, err := l.drop(name)
			reply(w, object{"id": id}, err)
		} else if table, ok := decoded[Table](w, r); ok {
			reply(w, object{}, l.create(name, table))
		}
	})
	mux.HandleFunc("/drops/", func(w http.ResponseWriter, r *http.Request) {
		reply(w, object{}, l.undrop(strings.TrimPrefix(r.URL.Path, "/drops/")))
	})
	return mux
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 1_000
	}
	return n
}

func decoded[T any](w http.ResponseWriter, r *http.Request) (T, bool) {
	var content T
	if r.Method == http.MethodGet {
		return content, true
	}
	if err := json.NewDecoder(r.Body).Decode(&content); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return content, false
	}
	return content, true
}

func reply(w http.ResponseWriter, answer any, err error) {
	switch {
	case errors.Is(err, errUnknown), errors.Is(err, errDeleted):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		if failed := json.NewEncoder(w).Encode(answer); failed != nil {
			log.Print(failed)
		}
	}
}

func authorized(token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := r.Header.Get("Authorization")
		if token != "" && subtle.ConstantTimeCompare([]byte(given), []byte("Bearer "+token)) != 1 {
			http.Error(w, "the bearer token is missing or wrong", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	file := flag.String("file", "lake.json", "where the lake is stored")
	token := flag.String("token", "", "bearer token that every request must have")
	certificate := flag.String("certificate", "", "certificate in PEM: serve HTTPS")
	key := flag.String("key", "", "its private key")
	clients := flag.String("clients", "", "authority in PEM of the certificates that clients must have")
	flag.Parse()

	lake := &Lake{Tables: map[string]Table{}, Drops: map[string]Drop{}, Orphans: map[string]Mark{}, file: *file}
	if content, err := os.ReadFile(*file); err == nil {
		if err := json.Unmarshal(content, lake); err != nil {
			log.Fatal(err)
		}
	}
	server := &http.Server{Addr: *listen, Handler: authorized(*token, lake.routes())}
	if *clients != "" {
		authority, err := os.ReadFile(*clients)
		pool := x509.NewCertPool()
		if err != nil || !pool.AppendCertsFromPEM(authority) {
			log.Fatal("no certificate in ", *clients)
		}
		server.TLSConfig = &tls.Config{ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	}
	fmt.Println("serves", *listen)
	if *certificate == "" {
		log.Fatal(server.ListenAndServe())
	}
	log.Fatal(server.ListenAndServeTLS(*certificate, *key))
}
