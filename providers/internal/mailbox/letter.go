package mailbox

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"time"
)

const (
	// MaxPiece is how many bytes a letter or an answer carries at most. As text it stays below
	// 700 KB: flyctl takes no more than 1 MB of input.
	MaxPiece = 480 << 10
	// maxText bounds the text of a letter.
	maxText = 1 << 20
)

// Magic begins a letter, as bytes.
var Magic = [4]byte{'r', 'g', 'm', '\n'}

// id names a mailbox. Its client chooses it.
type id [16]byte

// letter goes from the client to the mailbox.
type letter struct {
	box  id
	ack  uint64        // how many bytes of the mailbox the client has
	at   uint64        // where data begins among all bytes of the client
	wait time.Duration // how long the answer may wait for bytes; 0: it has none
	data []byte
}

// answer goes from the mailbox to the client.
type answer struct {
	state    byte
	received uint64 // how many bytes of the client the mailbox has
	at       uint64 // where data begins among all bytes of the mailbox
	data     []byte
}

// The states of a mailbox.
const (
	open    = 0
	ended   = 1 // no more bytes come
	unknown = 2 // there is no such mailbox
)

const (
	letterHead = 4 + 16 + 8 + 8 + 4 + 4
	answerHead = 4 + 1 + 8 + 8 + 4
	checksum   = 4
)

var errDamaged = errors.New("what arrived is not whole")

func (l letter) bytes() []byte {
	b := append(make([]byte, 0, letterHead+len(l.data)+checksum), Magic[:]...)
	b = append(b, l.box[:]...)
	b = binary.BigEndian.AppendUint64(b, l.ack)
	b = binary.BigEndian.AppendUint64(b, l.at)
	b = binary.BigEndian.AppendUint32(b, uint32(l.wait.Milliseconds())) // seconds
	b = binary.BigEndian.AppendUint32(b, uint32(len(l.data)))           // at most MaxPiece
	return sealed(append(b, l.data...))
}

func (a answer) bytes() []byte {
	b := append(make([]byte, 0, answerHead+len(a.data)+checksum), Magic[:]...)
	b = append(b, a.state)
	b = binary.BigEndian.AppendUint64(b, a.received)
	b = binary.BigEndian.AppendUint64(b, a.at)
	b = binary.BigEndian.AppendUint32(b, uint32(len(a.data))) // at most MaxPiece
	return sealed(append(b, a.data...))
}

// sealed returns bytes with their checksum.
func sealed(b []byte) []byte { return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)) }

// read reads bytes with a head, whose last four bytes are the length of the data, and the checksum.
func read(r io.Reader, head int) ([]byte, error) {
	b := make([]byte, head)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(b[head-4:])
	if [4]byte(b[:4]) != Magic || n > MaxPiece {
		return nil, errDamaged
	}
	rest := make([]byte, int(n)+checksum)
	if _, err := io.ReadFull(r, rest); err != nil {
		return nil, err
	}
	b = slices.Concat(b, rest)
	if crc32.ChecksumIEEE(b[:len(b)-checksum]) != binary.BigEndian.Uint32(b[len(b)-checksum:]) {
		return nil, errDamaged
	}
	return b, nil
}

func readLetter(r io.Reader) (letter, error) {
	b, err := read(r, letterHead)
	if err != nil {
		return letter{}, err
	}
	return letter{
		box: id(b[4:20]), ack: binary.BigEndian.Uint64(b[20:]), at: binary.BigEndian.Uint64(b[28:]),
		wait: time.Duration(binary.BigEndian.Uint32(b[36:])) * time.Millisecond, data: b[letterHead : len(b)-checksum],
	}, nil
}

func readAnswer(r io.Reader) (answer, error) {
	b, err := read(r, answerHead)
	if err != nil {
		return answer{}, err
	}
	return answer{
		state: b[4], received: binary.BigEndian.Uint64(b[5:]), at: binary.BigEndian.Uint64(b[13:]), data: b[answerHead : len(b)-checksum],
	}, nil
}

// Carry brings a letter, as text, from in to a Mailboxes that serves conn, and its answer, as text,
// to out.
func Carry(in io.Reader, out io.Writer, conn io.ReadWriter) error {
	text, err := io.ReadAll(io.LimitReader(in, maxText))
	if err != nil {
		return fmt.Errorf("read a letter: %w", err)
	}
	bytes, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("read a letter: %w", err)
	}
	if len(bytes) < letterHead+checksum {
		return errDamaged
	}
	if _, err := conn.Write(bytes); err != nil {
		return fmt.Errorf("deliver a letter: %w", err)
	}
	reply, err := read(conn, answerHead)
	if err != nil {
		return fmt.Errorf("wait for an answer: %w", err)
	}
	_, err = io.WriteString(out, base64.StdEncoding.EncodeToString(reply)+"\n")
	return err
}
