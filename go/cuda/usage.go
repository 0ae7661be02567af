package cuda

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
)

// Attributes of `.nv.info`, each {format, attribute, size or value}: what a cubin says of its kernels' registers and stack.
const (
	attributeFrame     = 0x11 // bytes of stack of one function
	attributeRegisters = 0x2f
	formatSized        = 4 // followed by `size` bytes: here the number of a symbol and a value
)

// Usage gives what each entry of a cubin takes. Stack is where registers are spilled to, and where arrays lie that no register can hold.
func Usage(image []byte) ([]card.Usage, error) {
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, fmt.Errorf("read a cubin: %w", err)
	}
	defer file.Close()
	symbols, err := file.Symbols()
	if err != nil {
		return nil, fmt.Errorf("read the symbols of a cubin: %w", err)
	}
	taken := map[string]*card.Usage{}
	for _, section := range file.Sections { // an entry has a section of its own
		if entry, ok := strings.CutPrefix(section.Name, ".text."); ok && file.Section(".nv.constant0."+entry) != nil {
			taken[entry] = &card.Usage{Entry: entry}
			if shared := file.Section(".nv.shared." + entry); shared != nil {
				taken[entry].SharedBytes = int(shared.Size)
			}
		}
	}
	info := file.Section(".nv.info")
	if info == nil {
		return nil, errors.New("read a cubin: it has no section `.nv.info`")
	}
	data, err := info.Data()
	if err != nil {
		return nil, fmt.Errorf("read `.nv.info` of a cubin: %w", err)
	}
	for len(data) >= 4 {
		format, attribute, value := data[0], data[1], int(binary.LittleEndian.Uint16(data[2:]))
		data = data[4:]
		if format != formatSized {
			continue
		}
		if value > len(data) {
			return nil, errors.New("read `.nv.info` of a cubin: it ends early")
		}
		words := data[:value]
		data = data[value:]
		if len(words) != 8 || attribute != attributeRegisters && attribute != attributeFrame {
			continue
		}
		index, number := int(binary.LittleEndian.Uint32(words)), int(binary.LittleEndian.Uint32(words[4:]))
		if index < 1 || index > len(symbols) { // Symbols leaves out the first, which is empty
			continue
		}
		if use := taken[symbols[index-1].Name]; use != nil {
			if attribute == attributeRegisters {
				use.Registers = number
			} else {
				use.StackBytes = number
			}
		}
	}
	list := make([]card.Usage, 0, len(taken))
	for _, use := range taken {
		list = append(list, *use)
	}
	slices.SortFunc(list, func(a, b card.Usage) int { return strings.Compare(a.Entry, b.Entry) })
	return list, nil
}
