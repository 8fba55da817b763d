package local

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
)

// The host and init speak frames over a stream socket: a length (u32, little-endian), then that many bytes of JSON. The
// files of a command travel with its frame's length.

// setup is the first frame to init.
type setup struct {
	Root     string   `json:"root"`
	Shared   []string `json:"shared"`
	Mounts   []mount  `json:"mounts"` // shortest path first
	Hostname string   `json:"hostname"`
	Limits   []rlimit `json:"limits"`
}

type mount struct {
	Host     string `json:"host"`
	Path     string `json:"path"`
	ReadOnly bool   `json:"ro"`
}

type rlimit struct {
	Resource int    `json:"resource"`
	Value    uint64 `json:"value"`
}

// order asks init to start a command, or to signal one.
type order struct {
	ID     int    `json:"id"`
	Args   words  `json:"args,omitempty"`
	Env    words  `json:"env,omitempty"`
	Dir    []byte `json:"dir,omitempty"`
	Signal int    `json:"signal,omitempty"` // to the group of command ID
}

// words travel as bytes: arguments and environments need not be UTF-8.
type words []string

func (w words) MarshalJSON() ([]byte, error) {
	raw := make([][]byte, len(w))
	for i, s := range w {
		raw[i] = []byte(s)
	}
	return json.Marshal(raw)
}

func (w *words) UnmarshalJSON(b []byte) error {
	var raw [][]byte
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*w = make(words, len(raw))
	for i, r := range raw {
		(*w)[i] = string(r)
	}
	return nil
}

// report tells that command ID ended, or, with ID 0, that the setup is done.
type report struct {
	ID     int    `json:"id"`
	Code   int    `json:"code"`
	Signal int    `json:"signal,omitempty"`
	Err    string `json:"err,omitempty"`
}

const maxFrame = 64 << 20

type wire struct {
	mu sync.Mutex // one frame at a time
	c  *net.UnixConn
}

func (w *wire) send(v any, fds ...int) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(b)))
	var oob []byte
	if len(fds) > 0 {
		oob = syscall.UnixRights(fds...)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, _, err := w.c.WriteMsgUnix(head, oob, nil); err != nil {
		return err
	}
	_, err = w.c.Write(b)
	return err
}

func (w *wire) recv(v any) (fds []int, err error) {
	var head [4]byte
	oob := make([]byte, 128)
	n, oobn, _, _, err := w.c.ReadMsgUnix(head[:], oob)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	if n < len(head) {
		if _, err := io.ReadFull(w.c, head[n:]); err != nil {
			return nil, err
		}
	}
	if oobn > 0 {
		msgs, err := syscall.ParseSocketControlMessage(oob[:oobn])
		if err != nil {
			return nil, err
		}
		for i := range msgs {
			got, err := syscall.ParseUnixRights(&msgs[i])
			if err != nil {
				return nil, err
			}
			fds = append(fds, got...)
		}
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size > maxFrame {
		return fds, errors.New("a frame between host and init is too long")
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(w.c, b); err != nil {
		return fds, err
	}
	return fds, json.Unmarshal(b, v)
}
